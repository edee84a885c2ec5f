"""The bill: what was generated for every key and model, in tokens. Never trimmed.

A request is billed when the provider began to answer it: the prompt, and what was generated, also
when the client left or the stream broke. Refusals are free, and so is taking a response up again:
it was billed to who asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tasks.local.simulator.entry import Entry

_OK = 200


class Line(msgspec.Struct, kw_only=True):
    """One line of the bill: a key and a model."""

    key: str
    model: str
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    def add(self, entry: Entry) -> None:
        self.requests += 1
        self.prompt_tokens += entry.usage.prompt_tokens
        self.completion_tokens += entry.usage.completion_tokens
        self.reasoning_tokens += entry.usage.reasoning_tokens


class Bill:
    """Of one simulator. `settle` takes an entry for good, once nothing more can come."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str], Line] = {}

    def settle(self, entry: Entry) -> None:
        _add(self._settled, entry)

    def lines(self, open_entries: Iterable[Entry]) -> list[Line]:
        """Every line, with what the entries have that are not settled yet."""
        lines = {at: msgspec.structs.replace(line) for at, line in self._settled.items()}
        for entry in open_entries:
            _add(lines, entry)
        return [lines[at] for at in sorted(lines)]


def _add(lines: dict[tuple[str, str], Line], entry: Entry) -> None:
    if entry.status != _OK or not entry.model or not entry.asked:
        return
    at = entry.key, entry.model
    lines.setdefault(at, Line(key=entry.key, model=entry.model)).add(entry)
