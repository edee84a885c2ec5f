"""Drives one exchange: waits for its head, then turns what comes into happenings, under the clocks.

Between the pure `Answer` and the thin `Exchange`. The exchange is let go of in every case: read on
for a moment after an earned end, so that its connection can be used again, and closed otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

import structlog

from worker.upstream.answer import Answer, Dialect, empty_answer
from worker.upstream.clocks import Watch
from worker.upstream.encodings import inflate_for
from worker.upstream.exchange import Exchange, Head
from worker.upstream.failures import UpstreamFailure, failure_of_answer
from worker.upstream.happenings import Happening
from worker.upstream.usual import event_at

log = structlog.get_logger(__name__)

#: Takes what one read brought, and asks for a pause with something to wait for.
Take = Callable[[list[Happening]], Awaitable[None] | None]
#: The same for a usual chunk: one piece of text or of reasoning.
TakeOne = Callable[[Happening], Awaitable[None] | None]

#: What is read of an error's body, and for how long: it explains, and a stuck one must not block.
ERROR_BYTES = 64 * 1024
ERROR_BODY_S = 5.0


async def opened(exchange: Exchange, watch: Watch) -> Head:
    """The head of a successful answer. Raises what any other answer means, and closes then."""
    try:
        while (head := await exchange.head(watch.wait_s())) is None:
            watch.check()
        watch.headers_came()
        await _require_success(exchange, head, watch)
    except BaseException:
        exchange.abort()
        raise
    return head


async def _require_success(exchange: Exchange, head: Head, watch: Watch) -> None:
    if head.status in (204, 205):
        raise empty_answer(head.status)
    if not 200 <= head.status < 300:
        body = await _explanation(exchange, head, watch)
        raise failure_of_answer(head.status, head.headers, body)


async def follow(
    exchange: Exchange,
    head: Head,
    dialect: Dialect,
    watch: Watch,
    alias: str,
    take: Take,
    one: TakeOne | None = None,
    first: list[Happening] | None = None,
) -> None:
    """Gives `take` what happens in an opened exchange, one list a read, up to its earned end; or
    `one`, what it can take. `first` is what happened before. Raises UpstreamFailure, or what they
    raised."""
    try:
        answer = Answer(
            dialect,
            head.headers.get("content-type", ""),
            head.headers.get("content-encoding", ""),
        )
        course = _Course(exchange, answer, watch, take, one or (lambda each: take([each])))
        if first:
            course.give(first)
        await course.run()
    except UpstreamFailure as failure:
        failure.reasoning, failure.visible = dialect.reasoning, dialect.visible
        failure.request_id = failure.request_id or head.request_id
        raise
    finally:
        exchange.abort()
        if tolerated := +dialect.notes:
            log.info("upstream.tolerated", key=alias, **tolerated)


class _Course:
    """One answer under way. Every read is taken where it arrives; the task only sees to the rest:
    the clocks, the end, and the pauses that `take` asks for."""

    def __init__(
        self, exchange: Exchange, answer: Answer, watch: Watch, take: Take, one: TakeOne
    ) -> None:
        self._exchange = exchange
        self._answer = answer
        self._watch = watch
        self._take, self._take_one = take, one
        self._waiting: Awaitable[None] | None = None
        #: When the last usual event came, as long as the watch has not been told.
        self._event_at = 0.0
        self._error: BaseException | None = None

    async def run(self) -> None:
        exchange, answer, watch = self._exchange, self._answer, self._watch
        if self._waiting is None:
            exchange.listen(self._heard, self._heard_usual)
        while True:
            if self._error is not None:
                raise self._error
            if self._waiting is not None:
                waiting, self._waiting = self._waiting, None
                await waiting
                watch.resume()
                exchange.listen(self._heard, self._heard_usual)
            elif answer.over:
                break
            elif exchange.ended:
                failure = exchange.failure
                self.give(answer.close() if failure is None else answer.cut(failure))
            elif not await exchange.stirred(self._wait_s()):
                self._tell_watch()
                if watch.patience_is_over():
                    self.give(answer.conclude())
                else:
                    watch.check()
        if answer.failed is not None:
            raise answer.failed

    def _wait_s(self) -> float:
        self._tell_watch()
        return self._watch.wait_s()

    def _tell_watch(self) -> None:
        if self._event_at:
            self._watch.event_came(self._event_at)
            self._event_at = 0.0

    def give(self, happenings: list[Happening]) -> None:
        """Hands on what happened; who takes it may ask for a pause."""
        if self._answer.over and self._answer.failed is None:
            self._exchange.release()
        if happenings:
            self._waiting = self._take(happenings)
            if self._waiting is not None:
                self._exchange.pause()

    def _heard_usual(self, data: bytes, at: float) -> int:
        """Takes the usual chunks it begins with, the way nearly all go; how many bytes they are."""
        say, upto, end = self._answer.usual, 0, len(data)
        if say is None or self._error is not None:
            return 0
        try:
            while (found := event_at(data, upto)) is not None:
                if (happening := say(found[0])) is None:
                    return upto
                upto, self._event_at = found[1], at
                self._waiting = self._take_one(happening)
                if self._waiting is not None:
                    self._exchange.pause()
                    self._exchange.stir()
                    return upto
                if upto == end:
                    return upto
        except BaseException as error:
            self._error = error
            self._exchange.stir()
        return upto

    def _heard(self, data: bytes) -> None:
        answer = self._answer
        if answer.over or self._error is not None:
            return
        # What is raised here belongs to the task; in the socket's callback it would be lost.
        try:
            seen = answer.events
            happenings = answer.feed(data)
            self._watch.bytes_came(events=answer.events > seen)
            self.give(happenings)
            ending = answer.grace_s
            if ending is not None:
                self._watch.end_within(ending, renew=bool(happenings))
        except BaseException as error:
            self._error = error
        else:
            if ending is None and not answer.over and self._waiting is None:
                return
        self._exchange.stir()


async def rest_of(
    exchange: Exchange, watch: Watch, *, limit_bytes: int, within_s: float | None = None
) -> bytes:
    """A body that is no stream, up to a limit in bytes and time."""
    watch.end_within(within_s)
    body = bytearray()
    while len(body) < limit_bytes:
        data = await exchange.read(watch.wait_s())
        if data:
            body += data
            watch.bytes_came(events=True)
        elif data is not None or watch.patience_is_over():
            break
        else:
            watch.check()
    return bytes(body[:limit_bytes])


async def _explanation(exchange: Exchange, head: Head, watch: Watch) -> bytes:
    body = b""
    with contextlib.suppress(UpstreamFailure):
        body = await rest_of(exchange, watch, limit_bytes=ERROR_BYTES, within_s=ERROR_BODY_S)
        inflate = inflate_for(head.headers.get("content-encoding", ""))
        body = body if inflate is None else inflate.feed(body)
    return body
