"""The Responses dialect: answers as typed, numbered events, or as one response object.

Reasoning and message are two items. A burst between two pieces of text goes on in the reasoning
item, so the items' deltas interleave, as they may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.beats import Beat, Kind, beats
from tasks.local.simulator.events import Event

encode = msgspec.json.encode

_TERMINALS = {"stop": ("completed", None), "length": ("incomplete", "max_output_tokens")}
_FILTERED = ("incomplete", "content_filter")


def events(ask: Ask, answer: Answer) -> Iterator[Event]:
    """The stream of an answer, from `response.created` to its terminal event."""
    return _Stream(ask, answer).events()


def response_id(ask: Ask) -> str:
    """Seeded; a background response, which is stored, is numbered too when asked for again."""
    again = f"{ask.nth:04d}" if ask.background and ask.nth > 1 else ""
    return f"resp_{ask.identity[: 48 - len(again)]}{again}"


def snapshot(ask: Ask, status: str, **fields: Any) -> dict[str, Any]:
    """The response object in one moment of its life."""
    return {
        "id": response_id(ask),
        "object": "response",
        "created_at": ask.created,
        "status": status,
        "background": ask.background,
        "error": None,
        "incomplete_details": None,
        "model": ask.model,
        "output": [],
        "usage": None,
    } | fields


def final(
    ask: Ask, text: str, finish: str, visible: int, thinking: int, *, refusal: bool = False
) -> bytes:
    """The response object at its end."""
    return encode(ended(ask, text, finish, visible, thinking, refusal=refusal))


def ended(
    ask: Ask, text: str, finish: str, visible: int, thinking: int, *, refusal: bool = False
) -> dict[str, Any]:
    """What the terminal event and a later retrieval carry."""
    status, reason = _TERMINALS.get(finish, _FILTERED)
    output = [_reasoning(ask, "completed")] if thinking else []
    if text:
        output.append(_message(ask, status, [_part(text, refusal=refusal)]))
    details = {"reason": reason} if reason else None
    billed = usage(ask, visible, thinking)
    return snapshot(ask, status, output=output, usage=billed, incomplete_details=details)


def message(ask: Ask, status: str, text: str) -> dict[str, Any]:
    """A message item with one text part."""
    return _message(ask, status, [_part(text, refusal=False)])


def usage(ask: Ask, visible: int, thinking: int) -> dict[str, Any]:
    return {
        "input_tokens": ask.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": visible + thinking,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": ask.prompt_tokens + visible + thinking,
    }


def _reasoning(ask: Ask, status: str) -> dict[str, Any]:
    return {"id": f"rs_{ask.identity[:48]}", "type": "reasoning", "summary": [], "status": status}


def _message(ask: Ask, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{ask.identity[:48]}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _part(text: str, *, refusal: bool) -> dict[str, Any]:
    if refusal:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class _Item:
    """An output item that is open: its place, what it said, and its delta between fixed bytes."""

    def __init__(self, kind: str, item: dict[str, Any], index: int) -> None:
        self.kind = kind
        self.item = item
        self.place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        self.told: list[str] = []
        self.tokens = 0
        fields = {"type": f"{kind}.delta", **self.place, "delta": "\x00"}
        self.before, self.after = encode(fields).split(rb'"\u0000"')

    @property
    def text(self) -> str:
        return "".join(self.told)


class _Stream:
    """Numbers the events of one answer."""

    def __init__(self, ask: Ask, answer: Answer) -> None:
        self._ask = ask
        self._answer = answer
        self._number = 0
        self._open: dict[Kind, _Item] = {}

    def events(self) -> Iterator[Event]:
        for beat in beats(self._ask, self._answer):
            if beat.kind is Kind.TEXT or beat.kind is Kind.THINK:
                yield from self._said(beat)
            elif beat.kind is Kind.KEEPALIVE:
                yield self._event("keepalive", pause_s=beat.pause_s)
            elif beat.kind is Kind.OPEN:
                yield from self._opening(beat.pause_s)
            else:
                yield from self._closing()

    def _event(self, kind: str, *, pause_s: float = 0.0, finish: str = "", **fields: Any) -> Event:
        payload = {"type": kind, **fields, "sequence_number": self._number}
        self._number += 1
        return Event(data=encode(payload), name=kind, pause_s=pause_s, finish=finish)

    def _opening(self, pause_s: float) -> Iterator[Event]:
        first = "queued" if self._ask.background else "in_progress"
        yield self._event("response.created", pause_s=pause_s, response=snapshot(self._ask, first))
        for status in dict.fromkeys((first, "in_progress")):
            yield self._event(f"response.{status}", response=snapshot(self._ask, status))

    def _said(self, beat: Beat) -> Iterator[Event]:
        if beat.kind not in self._open:
            yield from self._item_opened(beat.kind)
        item = self._open[beat.kind]
        item.told.append(beat.text)
        item.tokens += beat.tokens
        number = b',"sequence_number":%d}' % self._number
        self._number += 1
        is_text = beat.kind is Kind.TEXT
        yield Event(
            data=item.before + encode(beat.text) + item.after[:-1] + number,
            name=f"{item.kind}.delta",
            pause_s=beat.pause_s,
            joined=beat.joined,
            text=beat.text if is_text else "",
            text_tokens=beat.tokens if is_text else 0,
            thinking_tokens=0 if is_text else beat.tokens,
        )

    def _item_opened(self, kind: Kind) -> Iterator[Event]:
        index = len(self._open)
        if kind is Kind.THINK:
            item = _Item("response.reasoning_text", _reasoning(self._ask, "in_progress"), index)
            part = {"type": "reasoning_text", "text": ""}
        else:
            name = "response.refusal" if self._answer.refusal else "response.output_text"
            item = _Item(name, _message(self._ask, "in_progress", []), index)
            part = _part("", refusal=self._answer.refusal)
        self._open[kind] = item
        yield self._event("response.output_item.added", output_index=index, item=item.item)
        yield self._event("response.content_part.added", **item.place, part=part)

    def _closing(self) -> Iterator[Event]:
        for kind, item in self._open.items():
            yield from self._item_closed(kind, item)
        text, thought = (self._open.get(kind) for kind in (Kind.TEXT, Kind.THINK))
        response = ended(
            self._ask,
            text.text if text else "",
            self._answer.finish,
            text.tokens if text else 0,
            thought.tokens if thought else 0,
            refusal=self._answer.refusal,
        )
        finish = self._answer.finish
        yield self._event(f"response.{response['status']}", finish=finish, response=response)

    def _item_closed(self, kind: Kind, item: _Item) -> Iterator[Event]:
        field = "refusal" if item.kind == "response.refusal" else "text"
        said: dict[str, Any] = {field: item.text}
        yield self._event(f"{item.kind}.done", **item.place, **said)
        if kind is Kind.THINK:
            part = {"type": "reasoning_text", "text": item.text}
            whole = _reasoning(self._ask, "completed")
        else:
            part = _part(item.text, refusal=self._answer.refusal)
            whole = _message(self._ask, "completed", [part])
        yield self._event("response.content_part.done", **item.place, part=part)
        index = item.place["output_index"]
        yield self._event("response.output_item.done", output_index=index, item=whole)
