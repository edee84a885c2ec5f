"""Asks for another model when a provider will not serve the one it was asked for.

Only what says nothing about the request itself counts: the model is overloaded, or not there. What
declines the request would decline it again, and asking on until somebody agrees is not for us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from settings.model import Settings
from worker.attempt.pump import Pump
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished
from worker.upstream.request import Request

_NOT_SERVED = frozenset({"overloaded", "not_found"})


def fallbacks_of(settings: Settings, pool: str, model: str) -> Sequence[str]:
    """The models to ask next, among those the pool of the job's key serves."""
    named = settings.fallbacks.get(model)
    if named is None:
        patterns = (p for p in settings.fallbacks if fnmatchcase(model, p))
        named = settings.fallbacks.get(next(patterns, ""), ())
    serving = settings.pools.get(pool)
    return [other for other in named if serving is not None and serving.serves(other)]


async def served(
    request: Request,
    others: Sequence[str],
    pump_of: Callable[[], Pump],
    refused: Callable[[str, UpstreamFailure], None],
) -> Finished:
    """The end of the first stream that is served; `refused` is told what is asked instead.

    Raises UpstreamFailure: of the last, when none is served.
    """
    for other in others:
        pump = pump_of()
        try:
            return await pump.run(request)
        except UpstreamFailure as failure:
            if failure.kind not in _NOT_SERVED or pump.produced:
                raise
            refused(other, failure)
            request = msgspec.structs.replace(request, model=other)
    return await pump_of().run(request)
