"""Puts fragments of tool calls under the call they belong to.

Providers leave the index out, use one index for several calls, or repeat the id. A fragment with
a known id continues that call. An unknown id with a name begins a call, under its own index if
that is free. Anything else continues the call of its index, or else the latest.
"""

from __future__ import annotations

from worker.upstream.chat_shapes import Call
from worker.upstream.happenings import ToolCall


class ToolCalls:
    """The calls of one answer."""

    def __init__(self) -> None:
        self._of_id: dict[str, int] = {}
        self._of_index: dict[int, int] = {}
        self._latest: int | None = None
        self._identified: set[int] = set()
        self._named: set[int] = set()

    def fragments(self, calls: list[Call]) -> list[ToolCall]:
        return [self._fragment(call) for call in calls]

    def _fragment(self, call: Call) -> ToolCall:
        name = call.function.name if call.function else None
        number = self._number(call, bool(name))
        self._latest = number
        if call.index is not None:
            self._of_index[call.index] = number
        if call.id:
            self._of_id.setdefault(call.id, number)
        arguments = call.function.arguments if call.function else None
        return ToolCall(
            number,
            _first(self._identified, number, call.id),
            _first(self._named, number, name),
            arguments or "",
        )

    def _number(self, call: Call, named: bool) -> int:
        if call.id and call.id in self._of_id:
            return self._of_id[call.id]
        held = self._latest if call.index is None else self._of_index.get(call.index)
        begins = held is None or bool(call.id and (named or call.index is None))
        if held is not None and not begins:
            return held
        used = set(self._of_index.values()) | set(self._of_id.values())
        used |= set() if self._latest is None else {self._latest}
        if call.index is not None and call.index not in used:
            return call.index
        return max(used, default=-1) + 1


def _first(told: set[int], number: int, value: str | None) -> str | None:
    """`value` the first time a call has one, and None ever after."""
    if not value or number in told:
        return None
    told.add(number)
    return value
