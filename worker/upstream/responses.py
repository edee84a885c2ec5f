"""The Responses dialect: events, addressed by item and part, become happenings.

The terminal is one of `response.completed`, `.incomplete`, `.failed`, `.cancelled` or an error;
neither `[DONE]` nor the end of the body is one. The type in the JSON decides, and the `event:`
line only where there is none. A snapshot (`done`, `completed`) says only what its deltas have
not; an empty one takes nothing back. A background response can be taken up again at the last
sequence number seen: `said` is then the text delivered before, and of the snapshots only the
final one is read, since those of single parts also repeat what was said before.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

import msgspec

from worker.outcomes import Outcome
from worker.upstream.channel import Channel
from worker.upstream.documents import UNFIT, Documents, Sentinel, Shape
from worker.upstream.error_bodies import error_in
from worker.upstream.failures import UpstreamFailure, failure_in_stream, malformed, truncated
from worker.upstream.happenings import (
    Finished,
    Happening,
    Refusal,
    Resumable,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from worker.upstream.response_endings import TERMINAL, failure_of, incomplete
from worker.upstream.response_shapes import (
    Place,
    ResponseEvent,
    items_of,
    parts_of,
    rough_event,
    usage_of,
)
from worker.upstream.sse import Event

_TEXT = "response.output_text."
_REFUSAL = "response.refusal."
_THINKING = ("response.reasoning_text.", "response.reasoning_summary_text.")
_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
#: With these, an event brings one piece of news.
_DELTAS = ("response.output_text.delta", *(f"{kind}delta" for kind in _THINKING))

_EVENTS = Shape(ResponseEvent)


class Responses:
    """The state of one response, or of one that is taken up again."""

    def __init__(self, *, resumed: Resumable | None = None, said: str = "") -> None:
        self.reasoning = 0
        self.visible = 0
        self.failed: UpstreamFailure | None = None
        self._response_id = None if resumed is None else resumed.response_id
        self._background = resumed is not None
        self._resumed = resumed is not None
        self._seen = -1 if resumed is None else resumed.sequence
        self._documents = Documents(_EVENTS)
        self._parts: dict[tuple[str, Place], Channel] = {}
        self._text, self._refusal = Channel(), Channel()
        self._text.say(said, rough=True)
        self._calls: dict[str, int] = {}
        self._usage: Usage | None = None
        self._end: tuple[Outcome, str] | None = None

    @property
    def notes(self) -> Counter[str]:
        """What was mended, tolerated or ignored, by name."""
        return self._documents.notes

    @property
    def grace_s(self) -> float | None:
        """0 once the terminal was seen, since nothing can follow it; None before."""
        return None if self._end is None else 0.0

    def lone(self, data: bytes) -> Happening | None:
        """What an event brings that is one delta of text or of reasoning; None for any other, and
        in a background response, where each also tells where it can be taken up."""
        if self._background or self._end is not None or not self._documents.is_between:
            return None
        try:
            event = _EVENTS.one.decode(data)
        except UNFIT:
            return None
        if event.type not in _DELTAS or not event.delta or not self._text.is_between:
            return None
        out: list[Happening] = []
        self._event(event, out, rough=False)
        return out[0]

    def feed(self, events: list[Event]) -> list[Happening]:
        """What these events bring. `Finished` is never among it; `finish` gives that."""
        out: list[Happening] = []
        before = point = self._seen
        for document in self._documents.take(events):
            if isinstance(document, Sentinel) or self._end is not None:
                self.notes["after_the_end" if self._end else "sentinel"] += 1
                continue
            rough, last = isinstance(document, dict), self._seen
            self._event(rough_event(document) if rough else document, out, rough)  # type: ignore[arg-type]
            # Until the end is stored, it must be told again, and the text before it must not.
            point = self._seen if self._end is None else last
            if self.failed is not None:
                break
        self.failed = self.failed or (self._documents.failed if self._end is None else None)
        if self._background and self._response_id and point > before:
            out.append(Resumable(self._response_id, point))
        return _merged(out)

    def whole(self, body: bytes) -> list[Happening]:
        """The happenings of a response that came as one JSON document: unstreamed, or polled."""
        self.notes["non_streamed"] += 1
        try:
            response = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            response = None
        out: list[Happening] = []
        if isinstance(response, dict) and f"response.{response.get('status')}" in TERMINAL:
            self._terminal(response["status"], response, out)
        elif error := error_in(response):
            self.failed = failure_in_stream(error)
        else:
            self.failed = malformed("the body is JSON, but no ended response", body)
        return _merged(out)

    def tail(self, event: Event) -> list[Happening]:
        """An event that the clean end of the body cut off; taken only if it is whole."""
        if not self._documents.completes(event):
            self.notes["cut_tail"] += 1
            return []
        self.notes["unterminated_tail"] += 1
        return self.feed([event])

    def finish(self) -> list[Happening]:
        """The last happening. Raises when there was no terminal."""
        self._documents.close()
        if self._end is None:
            raise truncated()
        rest = self._text.close()
        closing: list[Happening] = [Text(rest)] if rest else []
        return [*closing, Finished(*self._end)]

    def _event(self, event: ResponseEvent, out: list[Happening], rough: bool) -> None:
        if event.sequence_number is not None:
            if self._resumed and event.sequence_number <= self._seen:
                self.notes["replayed_event"] += 1
                return
            self._seen = max(self._seen, event.sequence_number)
        kind = event.type
        if kind.startswith(_TEXT):
            self._said(kind, event.delta, event.text, event.place, out, rough)
        elif kind.startswith(_THINKING):
            self._thought(kind, event, out, rough)
        elif kind.startswith(_REFUSAL):
            self._said(kind, event.delta, event.refusal, event.place, out, rough)
        elif kind.startswith(_CALLS):
            self._arguments(event, out)
        else:
            self._lifecycle(event, out)

    def _lifecycle(self, event: ResponseEvent, out: list[Happening]) -> None:
        if event.type in TERMINAL:
            self._terminal(TERMINAL[event.type], event.response or {}, out)
        elif event.type in ("response.output_item.added", "response.output_item.done"):
            self._item(event, out)
        elif event.type in ("response.created", "response.queued", "response.in_progress"):
            response = event.response or {}
            self._response_id = response.get("id") or self._response_id
            self._background = self._background or response.get("background") is True
        elif error := error_in(msgspec.structs.asdict(event)):
            self.failed = failure_in_stream(error)
        elif not event.type.startswith("response.") and event.type != "keepalive":
            self.notes["unknown_event"] += 1

    def _said(
        self, kind: str, delta: str | None, snapshot: str | None, place: Place,
        out: list[Happening], rough: bool,
    ) -> None:  # fmt: skip
        """Text or a refusal: a delta, or the snapshot of a part."""
        refusal = kind.startswith(_REFUSAL)
        part = self._part("refusal" if refusal else "text", place)
        if kind.endswith(".delta"):
            text = delta or ""
            part.say(text, rough=rough)
        elif self._resumed:
            return
        else:
            text = self._rest(part, snapshot)
            if text:
                (self._refusal if refusal else self._text).forget_half()
        self._deliver(text, out, refusal=refusal, rough=rough)

    def _deliver(self, text: str, out: list[Happening], *, refusal: bool, rough: bool) -> None:
        text = (self._refusal if refusal else self._text).say(text, rough=rough)
        if text:
            self.visible += 1
            out.append(Refusal(text) if refusal else Text(text))

    def _thought(self, kind: str, event: ResponseEvent, out: list[Happening], rough: bool) -> None:
        part = self._part(kind.rpartition(".")[0], event.place)
        if kind.endswith(".delta"):
            text = part.say(event.delta or "", rough=rough)
        else:
            text = "" if self._resumed else self._rest(part, event.text)
        if text:
            self.reasoning += 1
            out.append(Thinking(text, 1))

    def _part(self, kind: str, place: Place) -> Channel:
        return self._parts.setdefault((kind, place), Channel())

    def _rest(self, part: Channel, snapshot: str | None) -> str:
        """What a snapshot adds; nothing when it contradicts what was delivered."""
        rest = part.rest_of(snapshot or "")
        if rest is None:
            self.notes["snapshot_differs"] += 1
            return ""
        if rest:
            self.notes["snapshot_adds"] += 1
        return part.say(rest)

    def _item(self, event: ResponseEvent, out: list[Happening]) -> None:
        item = event.item or {}
        if item.get("type") not in ("function_call", "custom_tool_call"):
            return
        key = str(item.get("id") or f"#{event.output_index or 0}")
        if key not in self._calls:
            self._calls[key] = len(self._calls)
            self.visible += 1
            out.append(ToolCall(self._calls[key], item.get("call_id"), item.get("name"), ""))
        if event.type.endswith(".done") and not self._resumed:
            whole = item.get("arguments") or item.get("input") or ""
            self._call_text(key, self._rest(self._part("call", (key, 0)), whole), out)

    def _arguments(self, event: ResponseEvent, out: list[Happening]) -> None:
        key = event.place[0]
        part = self._part("call", (key, 0))
        if event.type.endswith(".delta"):
            self._call_text(key, part.say(event.delta or "", rough=True), out)
        elif not self._resumed:
            self._call_text(key, self._rest(part, event.arguments or event.input), out)

    def _call_text(self, key: str, text: str, out: list[Happening]) -> None:
        if text:
            self.visible += 1
            number = self._calls.setdefault(key, len(self._calls))
            out.append(ToolCall(number, None, None, text))

    def _terminal(self, status: str, response: dict[str, Any], out: list[Happening]) -> None:
        if status == "done":
            status = response.get("status") or "completed"
        self._final_snapshot(response, out)
        usage = usage_of(response)
        if usage is not None and usage != self._usage:
            self._usage = usage
            out.append(usage)
        if status == "completed":
            self._end = (Outcome.REFUSED if self._refusal.spoke else Outcome.COMPLETED, status)
        elif status == "incomplete":
            spent = self._usage.reasoning_tokens if self._usage else 0
            spoke = self.visible > 0 or self._text.spoke
            self._end = incomplete(response, spoke=spoke, thought=spent or self.reasoning)
        else:
            self.failed = failure_of(status, response)

    def _final_snapshot(self, response: dict[str, Any], out: list[Happening]) -> None:
        """The whole answer once more: what of it was never delivered is delivered now."""
        for refusal, kind in ((False, "output_text"), (True, "refusal")):
            channel = self._refusal if refusal else self._text
            whole = "".join(text for item in items_of(response) for text in parts_of(item, kind))
            rest = channel.rest_of(whole)
            if rest is None:
                self.notes["snapshot_differs"] += 1
            elif rest:
                self.notes["snapshot_adds"] += 1
                self._deliver(rest, out, refusal=refusal, rough=False)


def _merged(happenings: list[Happening]) -> list[Happening]:
    """One `Thinking` for each run of them."""
    merged: list[Happening] = []
    for is_thinking, run in groupby(happenings, lambda h: isinstance(h, Thinking)):
        if is_thinking:
            thoughts = [h for h in run if isinstance(h, Thinking)]
            merged.append(Thinking("".join(h.text for h in thoughts), len(thoughts)))
        else:
            merged += run
    return merged
