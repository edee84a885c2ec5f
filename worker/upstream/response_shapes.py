"""The shapes of the Responses API: its events, typed for speed, and what its objects carry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from worker.upstream.happenings import Usage

#: A part of the answer: the item it belongs to, and its place there.
Place = tuple[str, int]


class ResponseEvent(msgspec.Struct, gc=False):
    """Any event of a response. What an event type does not have stays None."""

    type: Annotated[str, msgspec.Meta(min_length=1)]
    delta: str | None = None
    sequence_number: int | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    code: Any = None
    message: Any = None
    param: Any = None
    error: Any = None

    @property
    def place(self) -> Place:
        item = self.item_id or f"#{self.output_index or 0}"
        return item, self.content_index or self.summary_index or 0


_FIELDS = dict.fromkeys(ResponseEvent.__struct_fields__)


def rough_event(document: dict[str, Any]) -> ResponseEvent:
    """Reads an event whose fields are not all of their usual types; those are left out."""
    known = {name: document[name] for name in _FIELDS if name in document}
    wanted: dict[str, type] = {"item": dict, "response": dict}
    wanted |= dict.fromkeys(("delta", "item_id", "text", "refusal", "arguments", "input"), str)
    numbers = ("sequence_number", "output_index", "content_index", "summary_index")
    wanted |= dict.fromkeys(numbers, int)
    fit = {n: v for n, v in known.items() if n not in wanted or isinstance(v, wanted[n])}
    return ResponseEvent(**{**fit, "type": str(document.get("type") or "")})


def parts_of(item: dict[str, Any], kind: str) -> Iterator[str]:
    """The texts of one kind (`output_text`, `refusal`) in an item, in their order."""
    name = "refusal" if kind == "refusal" else "text"
    for part in _list(item.get("content")):
        if part.get("type") == kind and isinstance(part.get(name), str):
            yield part[name]


def items_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    return _list(response.get("output"))


def usage_of(response: dict[str, Any]) -> Usage | None:
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=_count(usage, "input_tokens"),
        cached_tokens=_count(usage.get("input_tokens_details"), "cached_tokens"),
        output_tokens=_count(usage, "output_tokens"),
        reasoning_tokens=_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def incomplete_reason(response: dict[str, Any]) -> str:
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return reason if isinstance(reason, str) and reason else "incomplete"


def _list(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _count(place: Any, name: str) -> int:
    value = place.get(name) if isinstance(place, dict) else None
    return int(value) if isinstance(value, int | float) else 0
