"""The pump: what one provider says, moved into one log.

It owns the first two rungs of the recovery ladder. A background response goes on at the provider
when its stream is cut, so it is taken up again behind the last text that was stored, in the same
attempt and without a seam; when the provider streams it no more, the client polls it to its end
and brings the missing rest, verified against what was said. Everything else is for the runner.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from settings.model import Key
from worker.attempt.reading import HearsCalls, Mark, Reading
from worker.log.claim import Point
from worker.log.entries import Tokens
from worker.log.writer import Writer
from worker.seeing.witness import Witness
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
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
from worker.upstream.limits import Limits
from worker.upstream.request import Request

#: How often readers hear of reasoning tokens while nothing visible comes, in seconds.
_THINKING_EVERY_S = 0.5
#: A response that can not be taken up this often in a row is left to the next attempt.
_REJOINS = 5
#: How long the provider may take to cancel a response and say what it has used, in seconds.
_FAREWELL_S = 10.0


class Pump:
    """For one attempt. `said` is the text before it, `point` the response to take up first;
    `reading` gets the text as it comes, and `hear` what the provider says of its limits. `pay` is
    told how many tokens came, and says at how many it wants to be told again."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        key: Key,
        reading: Reading,
        *,
        said: str = "",
        point: Point | None = None,
        hear: Callable[[Limits], None] = lambda _: None,
        pay: Callable[[int], float] = lambda _: math.inf,
        begun: Callable[[str], None] = lambda _: None,
        seen: Witness,
    ) -> None:
        self._client = client
        self._hear = hear
        self._pay = pay
        self._begun = begun
        #: The provider's id of this stream, where it tells afterwards what that used.
        self.response_id = ""
        self._seen = seen
        #: Chunks with text until one is looked at again.
        self._unseen = 0
        self._reading = reading
        self._writer = writer
        self.key = key
        self._text = [said] if said else []
        self._at = None if point is None else Resumable(point.response_id, point.sequence)
        self._rejoined = 0
        #: Tokens that came, as far as deltas tell; what the provider counts comes at the end.
        self.produced = 0
        self._pay_at = 1.0
        self._thought = 0
        self._shown = 0
        self._shown_at = 0.0
        self._finished: Finished | None = None
        self._cancelled = False
        self.tokens = Tokens()

    @property
    def text(self) -> str:
        """Everything said, what came before this attempt included."""
        return "".join(self._text)

    @property
    def thought(self) -> int:
        """Those of them that were reasoning."""
        return self._thought

    @property
    def resumable(self) -> bool:
        """True when the response goes on at the provider without this stream."""
        return self._at is not None

    @property
    def goes_on(self) -> bool:
        """True until its end has come, or it was cancelled: it is paid for, read or not."""
        return self._at is not None and self._finished is None and not self._cancelled

    def reads(self, point: Point) -> bool:
        """Whether that is the response this pump moves."""
        return self._at is not None and self._at.response_id == point.response_id

    async def run(self, request: Request) -> Finished:
        """Ask, or take up, and move everything; the end it earned. Raises UpstreamFailure."""
        self._seen.asked(self.key.alias)
        rejoining = self.resumable
        while True:
            try:
                return await self._move(None if rejoining else request)
            except UpstreamFailure as failure:
                if not (self.resumable and failure.retryable and self._rejoined < _REJOINS):
                    raise
                self._rejoined += 1
                self._seen.rejoining(failure)
                await asyncio.sleep(random.uniform(0, 2.0**self._rejoined / 4))  # noqa: S311
                rejoining = True

    async def cancel(self) -> None:
        """Stop a background response at the provider, and learn what it has used."""
        if self._at is None:
            return
        self._cancelled = True
        with suppress(UpstreamFailure, TimeoutError):
            async with asyncio.timeout(_FAREWELL_S):
                used = await self._client.cancel(self.key, self._at.response_id)
                if used is not None:
                    self._used(used)

    async def _move(self, request: Request | None) -> Finished:
        """Through one connection, which asks, or takes the response up again."""
        if request is not None:
            begun = self._note_id if self.key.profile.usage_path else None
            await self._client.stream_into(
                request, self.key, self._take, begun=begun, one=self._take_one
            )
        else:
            assert self._at is not None
            await self._client.resume_into(self.key, self._at, self.text, self._take)
        assert self._finished is not None, "the client ended a stream without a Finished"
        return self._finished

    def _take(self, batch: list[Happening]) -> Awaitable[None] | None:
        """Moves what one read brought. Asks for a pause while the log is behind."""
        for happening in batch[:-1]:
            self._hear_of(happening)
        return self._take_one(batch[-1])

    def _take_one(self, happening: Happening) -> Awaitable[None] | None:
        if visible := isinstance(happening, Text):
            # As `_say` does, without its call: nearly every delta comes here.
            text = happening.text
            self._text.append(text)
            self.produced += 1
            if marks := self._reading.take(text):
                self._mark(text, marks)
            else:
                self._writer.text(text)
            self._unseen -= 1
            if self._unseen < 0:
                self._unseen = self._seen.came()
                self._writer.timed = time.monotonic()
        else:
            self._hear_of(happening)
        if self._thought != self._shown:
            self._show_thinking(at_once=visible or self._finished is not None)
        if self.produced >= self._pay_at:
            self._pay_at = self._pay(self.produced)
        self._rejoined = 0
        return None if self._writer.has_room else self._writer.room()

    def _show_thinking(self, *, at_once: bool) -> None:
        now = time.monotonic()
        if not self._shown_at:
            self._seen.thought()
        if at_once or now - self._shown_at >= _THINKING_EVERY_S:
            self._writer.thinking(self._thought)
            self._shown, self._shown_at = self._thought, now

    def _hear_of(self, happening: Happening) -> None:
        if isinstance(happening, Thinking):
            self._thought += happening.tokens
            self.produced += happening.tokens
        elif isinstance(happening, (Text, Refusal)):
            self._say(happening.text)
        elif isinstance(happening, ToolCall):
            if isinstance(self._reading, HearsCalls):
                self._reading.call(happening)
        elif isinstance(happening, Limits):
            self._hear(happening)
        elif isinstance(happening, Resumable):
            self._resumable_at(happening)
        elif isinstance(happening, Usage):
            self._used(happening)
        elif isinstance(happening, Finished):
            self._finished = happening

    def _say(self, text: str) -> None:
        self._text.append(text)
        self.produced += 1
        self._mark(text, self._reading.take(text))

    def _mark(self, text: str, marks: Sequence[Mark]) -> None:
        """Into the log, each note right behind the last character it needs."""
        done = 0
        for mark in marks:
            self._writer.text(text[done : mark.upto])
            self._writer.note(mark.what, mark.name)
            done = mark.upto
        if done < len(text):
            self._writer.text(text[done:])

    def _note_id(self, response_id: str) -> None:
        self.response_id = response_id
        self._begun(response_id)

    def _resumable_at(self, at: Resumable) -> None:
        self._at = at
        point = Point(self.key.alias, at.response_id, at.sequence)
        self._writer.resumable(msgspec.json.encode(point))

    def _used(self, usage: Usage) -> None:
        self.tokens = Tokens(
            input=usage.input_tokens,
            cached=usage.cached_tokens,
            output=usage.output_tokens,
            reasoning=usage.reasoning_tokens,
        )
