"""The Chat Completions dialect: from events to happenings, and an end that is earned.

The terminal is `[DONE]`, or a `finish_reason` and then the end of the body. `feed` never raises:
what came before a failure is returned, and `failed` says what happened. `finish` gives the last
happenings, or raises when the end was not earned. Nothing after `[DONE]` is delivered as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from worker.upstream.channel import Channel
from worker.upstream.chat_endings import is_failure, is_reason, outcome_of
from worker.upstream.chat_shapes import (
    Call,
    Choice,
    Chunk,
    Delta,
    LoneChunk,
    Tally,
    choices_in,
    tally_in,
)
from worker.upstream.documents import UNFIT, Documents, Sentinel, Shape
from worker.upstream.error_bodies import ErrorBody, error_in
from worker.upstream.failures import (
    UpstreamFailure,
    failure_in_stream,
    malformed,
    no_answer,
    truncated,
)
from worker.upstream.generation import id_in
from worker.upstream.happenings import Finished, Happening, Refusal, Text, Thinking, Usage
from worker.upstream.sse import Event
from worker.upstream.think_tags import ThinkTags
from worker.upstream.tool_calls import ToolCalls

#: After `[DONE]`, for a usage chunk that comes late.
USAGE_GRACE_S = 0.2
#: After a finish reason, for the usage chunk and the sentinel, which some never send.
SENTINEL_GRACE_S = 1.0

_CHUNKS = Shape(Chunk)
_lone = msgspec.json.Decoder(LoneChunk).decode


class Chat:
    """The state of one chat completion."""

    def __init__(
        self,
        *,
        usage_expected: bool = True,
        inline_thinking: bool = False,
        begun: Callable[[str], None] | None = None,
    ) -> None:
        """`begun` is told the id of the stream when it has one."""
        self.reasoning = 0
        self.visible = 0
        self.failed: UpstreamFailure | None = None
        self._begun = begun
        self._id: str | None = None
        self._documents = Documents(_CHUNKS)
        self._usage_expected = usage_expected
        self._usage: Usage | None = None
        self._reason: str | None = None
        self._done = False
        self._refused = False
        self._text, self._thought, self._refusal = Channel(), Channel(), Channel()
        #: What lone chunks said since `_text` was told.
        self._said: list[str] = []
        self._calls = ToolCalls()
        self._tags = ThinkTags() if inline_thinking else None
        #: Nothing of what came so far concerns the next chunk, unless that says so itself.
        self._between = False

    @property
    def notes(self) -> Counter[str]:
        """What was mended, tolerated or ignored, by name."""
        return self._documents.notes

    @property
    def grace_s(self) -> float | None:
        """How long the end may still be waited for; None while the answer is under way."""
        if self._done:
            return USAGE_GRACE_S if self._usage_expected and self._usage is None else 0.0
        return None if self._reason is None else SENTINEL_GRACE_S

    def lone(self, data: bytes) -> Text | Thinking | None:
        """What a chunk brings that has new text or new reasoning and nothing beside it; None for
        any other, which `feed` must be given. It does what `feed` would in a fifth of the time."""
        if not self._between:
            return None
        try:
            delta = _lone(data).choices[0].delta
        except UNFIT:
            return None
        text, thought = delta.content, delta.reasoning_content or delta.reasoning
        if not thought:
            if not text:
                return None
            self.visible += 1
            self._said.append(text)
            return Text(text)
        if text:
            return None
        self.reasoning += 1
        return Thinking(thought, 1)

    def feed(self, events: list[Event]) -> list[Happening]:
        """What these events bring. `Finished` is never among it; `finish` gives that."""
        self._begin(events)
        out: list[Happening] = []
        thoughts: list[str] = []
        for document in self._documents.take(events):
            if isinstance(document, Chunk) and not self._done:
                self._choice(document.choices[0], out, thoughts)
                if document.usage is not None:
                    self._count(document.usage, out)
            elif isinstance(document, Sentinel):
                self._done = True
            elif isinstance(document, dict):
                self._unusual(document, out, thoughts)
            else:
                self.notes["content_after_done"] += 1
                if document.usage is not None:
                    self._count(document.usage, out)
            if self.failed is not None:
                break
        if thoughts:
            _flush(out, thoughts)
        if self._documents.failed is not None:
            self._judge_documents()
        self._between = self._is_between()
        return out

    def _begin(self, events: list[Event]) -> None:
        if self._id is None and events:
            self._id = id_in(events[0].data)
            if self._id and self._begun is not None:
                self._begun(self._id)
        if self._said:
            self._text.say("".join(self._said))
            self._said.clear()

    def _is_between(self) -> bool:
        going_on = self.grace_s is None and self.failed is None and self._id is not None
        whole = self._documents.is_between and self._text.is_between
        return going_on and whole and self._tags is None

    def whole(self, body: bytes) -> list[Happening]:
        """The happenings of an answer that came as one JSON document instead of a stream."""
        out = self.feed([Event(body)])
        if self.failed is None and self._reason is None:
            self.failed = malformed("the body is JSON, but no completion", body)
        self.notes["non_streamed"] += 1
        self._done = True
        return out

    def tail(self, event: Event) -> list[Happening]:
        """An event that the clean end of the body cut off; taken only if it is whole."""
        if not self._documents.completes(event):
            self.notes["cut_tail"] += 1
            return []
        self.notes["unterminated_tail"] += 1
        return self.feed([event])

    def finish(self) -> list[Happening]:
        """The last happenings. Raises when the answer has no end."""
        self._documents.close()
        if self._reason is None and not self._done:
            raise truncated()
        if self._reason is None and not self.visible:
            raise no_answer()
        out: list[Happening] = []
        rest = self._text.close()
        self._say([(False, rest)] if self._tags is None else self._tags.close(), out)
        spent = self._usage.reasoning_tokens if self._usage else 0
        ending = outcome_of(
            self._reason,
            refused=self._refused,
            visible=self.visible,
            thought=spent or self.reasoning,
        )
        return [*out, Finished(*ending)]

    def _choice(
        self, choice: Choice, out: list[Happening], thoughts: list[str], *, rough: bool = False
    ) -> None:
        delta = choice.delta
        if delta is not None:
            if thought := delta.reasoning_content or delta.reasoning or delta.details():
                self.reasoning += 1
                thoughts.append(self._thought.say(thought, rough=True) if rough else thought)
            if delta.content or delta.refusal or delta.tool_calls or delta.function_call:
                if thoughts:
                    _flush(out, thoughts)
                self._visible(delta, out, rough)
        elif choice.message is not None:
            _flush(out, thoughts)
            self._snapshot(choice.message, out)
        if choice.finish_reason is not None and is_reason(choice.finish_reason):
            self._end_with(choice.finish_reason)
        if choice.usage is not None:
            self._count(choice.usage, out)

    def _visible(self, delta: Delta, out: list[Happening], rough: bool) -> None:
        if delta.content and (text := self._text.say(delta.content, rough=rough)):
            if self._tags is None:
                self.visible += 1
                out.append(Text(text))
            else:
                self._say(self._tags.split(text), out)
        if delta.refusal and (text := self._refusal.say(delta.refusal, rough=rough)):
            self._refused = True
            self.visible += 1
            out.append(Refusal(text))
        calls = delta.tool_calls or []
        if delta.function_call is not None:
            calls = [*calls, Call(index=0, function=delta.function_call)]
        if calls:
            self.visible += len(calls)
            out += self._calls.fragments(calls)

    def _say(self, pairs: list[tuple[bool, str]], out: list[Happening]) -> None:
        for thinking, words in pairs:
            if thinking:
                self.reasoning += 1
                out.append(Thinking(words, 1))
            elif words:
                self.visible += 1
                out.append(Text(words))

    def _snapshot(self, message: Delta, out: list[Happening]) -> None:
        """A whole message: only what the deltas have not said yet is new."""
        rest = self._text.rest_of(message.content or "")
        if rest is None:
            self.notes["snapshot_differs"] += 1
        streamed = self.visible or self.reasoning
        fresh = Delta(content=rest) if streamed else message
        thoughts: list[str] = []
        self._choice(Choice(delta=fresh), out, thoughts, rough=True)
        _flush(out, thoughts)

    def _unusual(self, document: dict[str, Any], out: list[Happening], thoughts: list[str]) -> None:
        """A document the common shape does not fit: usage, metadata, an error, or odd types."""
        ending = self.grace_s is not None
        choices = choices_in(document)
        if self._done:
            self.notes["content_after_done"] += bool(choices)
        elif choices:
            self.notes["extra_choices"] += len(choices) - 1
            self._choice(choices[0], out, thoughts, rough=True)
        elif "usage" not in document:
            self.notes["metadata"] += 1
        tally = tally_in(document)
        if tally is not None:
            self._count(tally, out)
        error = error_in(document)
        if error is not None and ending:
            self.notes["error_after_finish"] += 1
        elif error is not None:
            self.failed = failure_in_stream(error)

    def _end_with(self, reason: str) -> None:
        if is_failure(reason):
            self.failed = self.failed or failure_in_stream(ErrorBody(codes=(reason.lower(),)))
        else:
            self._reason = reason

    def _count(self, tally: Tally, out: list[Happening]) -> None:
        """The latest usage replaces the one before; zeros never replace numbers."""
        usage = tally.usage()
        if usage == self._usage or (
            self._usage and not (usage.input_tokens or usage.output_tokens)
        ):
            return
        self._usage = usage
        out.append(usage)

    def _judge_documents(self) -> None:
        broken = self._documents.failed
        if broken is not None and self.failed is None:
            if self.grace_s is None:
                self.failed = broken
            else:
                self.notes["garbage_after_finish"] += 1


def _flush(out: list[Happening], thoughts: list[str]) -> None:
    """Reasoning of one read is handed on in one piece, in its place before what follows."""
    if thoughts:
        out.append(Thinking("".join(thoughts), len(thoughts)))
        thoughts.clear()
