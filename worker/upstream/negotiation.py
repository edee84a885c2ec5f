"""Parameters a provider turned out not to take: found out once, and remembered.

Only what the client itself adds is left out after a refusal, never what a job asked for in
`extra_body`: that job's author should hear of it. An output limit is renamed and not lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from worker.upstream.failures import UpstreamFailure

#: What the client adds on its own, and can do without.
OPTIONAL = frozenset(
    {"reasoning_effort", "reasoning", "max_reasoning_tokens", "reasoning_chunk_buffer",
     "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens"}
)  # fmt: skip

_SAYS_SO = re.compile(
    r"unknown|unrecognized|unrecognised|unsupported|not supported|not permitted|unexpected|"
    r"not allowed|does not support|invalid (?:param|field|argument)|extra (?:inputs|fields)",
    re.I,
)


def refused_parameter(failure: UpstreamFailure, sent: Mapping[str, Any]) -> str | None:
    """The parameter of ours that this failure names and the request can be sent without."""
    if failure.status not in (400, 422):
        return None
    ours = OPTIONAL & sent.keys()
    if failure.param is not None:
        root = re.split(r"[.\[]", failure.param)[0]
        if root in ours and (failure.kind == "bad_parameter" or _SAYS_SO.search(failure.message)):
            return root
        return None
    if not _SAYS_SO.search(failure.message):
        return None
    named = [name for name in ours if re.search(rf"\b{name}\b", failure.message)]
    return min(named, key=lambda name: failure.message.index(name)) if named else None


class Refusals:
    """What each provider has refused so far, by base_url and model."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], frozenset[str]] = {}

    def of(self, base_url: str, model: str) -> frozenset[str]:
        return self._names.get((base_url, model), frozenset())

    def add(self, base_url: str, model: str, name: str) -> None:
        self._names[base_url, model] = self.of(base_url, model) | {name}
