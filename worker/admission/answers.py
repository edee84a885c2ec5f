"""What a provider's refusal means for everybody else who would go there.

A refusal is no failure of the job unless the request itself is refused. `ruling` says what should
rest, and for how long if the provider did not say; `told` tells the line, which also decides
whether the job goes back; `hear` passes on what an answer's headers say of the limits.

| refusal | what rests | first, longest rest | the job |
|---|---|---|---|
| rate limit | the model on the account | 2 s, 2 min | goes back, costs no attempt |
| a day's limit | the account | until its day is over | the same |
| quota, credit | the account | 1 h, 24 h | the same |
| 401, 403 | the key | 30 s, until repaired | asks another key; fails if that refuses, too |
| overload | the model on the account | 1 s, 30 s | the same, thirty times |
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import structlog

from settings.model import SIMULATOR, Settings
from worker.admission.line import Lease
from worker.admission.offers import packed
from worker.store.keys import pool_keys
from worker.store.scripts import Call, Script, script
from worker.upstream.failures import UpstreamFailure
from worker.upstream.limits import Limits

_ANSWER = script("worker.admission", "answer")
_HEARD = script("worker.admission", "heard")

#: A delay is stretched by up to this share, so that what rested together does not return together.
_STRETCH = 0.05

_CAUSE_CHARS = 120
_LEARNED = ("requests", "tokens", "streams")


_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ruling:
    """`rests`: account, key, model (on the account), day: the account until its day is over; or
    request: the key for a while, never for good."""

    rests: Literal["account", "key", "model", "day", "request"]
    kind: Literal["rate", "overload", "quota", "auth"]
    first_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Told:
    """What becomes of the job. `free`: it goes back, at once and without costing an attempt."""

    free: bool = False
    fails: bool = False
    #: The provider did nothing for it.
    unused: bool = False


_RATE = Ruling("model", "rate", 2, 120)
_STREAMS = Ruling("account", "rate", 2, 120)
_DAY = Ruling("day", "rate", 3600, 86_400)
_QUOTA = Ruling("account", "quota", 3600, 86_400)
_OVERLOAD = Ruling("model", "overload", 1, 30)
_BAD_KEY = Ruling("key", "auth", 30, 600)
#: Forbidden may be said of the one request: with no other key to ask, no key is put out for it.
_FORBIDDEN = Ruling("request", "auth", 30, 600)


def ruling(failure: UpstreamFailure) -> Ruling | None:
    """None: nobody else is concerned."""
    if failure.kind == "rate_limited":
        if (failure.dimension or "").endswith("_per_day"):
            return _DAY
        return _STREAMS if failure.dimension == "streams" else _RATE
    rulings = {
        "no_credit": _QUOTA,
        "account_deactivated": _QUOTA,
        "overloaded": _OVERLOAD,
        "bad_key": _BAD_KEY,
        "forbidden": _FORBIDDEN,
    }
    return rulings.get(failure.kind)


class Store(Protocol):
    def call(self, script: Script, keys: list[str], args: list[object]) -> Awaitable[object]: ...


async def told(store: Store, settings: Settings, lease: Lease, failure: UpstreamFailure) -> Told:
    """Tell the line of a failed attempt; what becomes of its job."""
    unused = failure.status is not None and not (failure.visible or failure.reasoning)
    if failure.limits and (heard := hear(settings, lease, failure.limits)) is not None:
        _warn_of_merged(await store.call(*heard))
    rule = ruling(failure)
    if rule is None or (rule.kind in ("auth", "quota") and _simulated(settings, lease)):
        return Told(unused=unused)
    verdict = await store.call(*answer(settings, lease, rule, failure))
    return Told(free=verdict == b"back", fails=verdict == b"fail", unused=unused)


def _simulated(settings: Settings, lease: Lease) -> bool:
    """Whoever asks the embedded simulator for a refusal wants to see it, not to be locked out."""
    key = settings.key(lease.key)
    return key is not None and (key.alias, key.provider) == (SIMULATOR, SIMULATOR)


def answer(settings: Settings, lease: Lease, rule: Ruling, failure: UpstreamFailure) -> Call:
    """Answers b"back", b"fail" or b""; see the script."""
    delay_ms = -1 if failure.delay_s is None else int(failure.delay_s * 1000)
    args = [
        lease.job_id,
        lease.number,
        rule.rests,
        rule.kind,
        delay_ms,
        int(rule.first_s * 1000),
        int(rule.longest_s * 1000),
        random.uniform(1, 1 + _STRETCH),  # noqa: S311
        failure.message[:_CAUSE_CHARS],
        failure.dimension if failure.dimension in _LEARNED else "",
        *packed(settings.pools[lease.pool], settings.accounts),
    ]
    return _ANSWER, pool_keys(lease.pool).all(), args


def hear(settings: Settings, lease: Lease, limits: Limits) -> Call | None:
    """Tighten what is kept to; None when there is nothing that could."""
    said: list[object] = [limits.organisation]
    for limit in limits.limits:
        said += [limit.dimension, limit.limit, limit.remaining]
    pool = settings.pools.get(lease.pool)
    if not limits or pool is None:
        return None
    args = [lease.job_id, lease.number, json.dumps(said), *packed(pool, settings.accounts)]
    return _HEARD, pool_keys(lease.pool).all(), args


def hearing(store: Store, settings: Settings, lease: Lease) -> Callable[[Limits], None]:
    """Takes what an answer says of its limits to the store; nobody waits for that."""
    under_way: set[asyncio.Future[object]] = set()

    def heard(limits: Limits) -> None:
        if (call := hear(settings, lease, limits)) is not None:
            telling = asyncio.ensure_future(store.call(*call))
            under_way.add(telling)
            telling.add_done_callback(under_way.discard)
            telling.add_done_callback(_report_merged)

    return heard


def _report_merged(heard: asyncio.Future[object]) -> None:
    """Warn when an answer told that two accounts are one."""
    if heard.cancelled() or heard.exception() is not None:
        # The next answer tells it again.
        return
    _warn_of_merged(heard.result())


def _warn_of_merged(reply: Any) -> None:
    _, *merged = reply
    if merged:
        account, other = (name.decode() for name in merged)
        _log.warning("accounts.merged", account=account, into=other)
