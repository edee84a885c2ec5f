"""Drives one exchange: waits for its head, then turns its reads into happenings, under the clocks.

Between the pure `Answer` and the thin `Exchange`. The exchange is let go of in every case: read on
for a moment after an earned end, so that its connection can be used again, and closed otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import structlog

from worker.upstream.answer import Answer, Dialect, empty_answer
from worker.upstream.clocks import Watch
from worker.upstream.encodings import inflate_for
from worker.upstream.exchange import Exchange, Head
from worker.upstream.failures import UpstreamFailure, failure_of_answer
from worker.upstream.happenings import Happening

log = structlog.get_logger(__name__)

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
    exchange: Exchange, head: Head, dialect: Dialect, watch: Watch, alias: str
) -> AsyncGenerator[list[Happening], None]:
    """What happens in an opened exchange, one list per read, up to its earned end."""
    try:
        answer = Answer(
            dialect,
            head.headers.get("content-type", ""),
            head.headers.get("content-encoding", ""),
        )
        while not answer.over:
            happenings = await _advance(exchange, answer, watch)
            if answer.over and answer.failed is None:
                exchange.release()
            if happenings:
                yield happenings
                watch.resume()
        if answer.failed is not None:
            raise answer.failed
    except UpstreamFailure as failure:
        failure.reasoning, failure.visible = dialect.reasoning, dialect.visible
        failure.request_id = failure.request_id or head.request_id
        raise
    finally:
        exchange.abort()
        if tolerated := +dialect.notes:
            log.info("upstream.tolerated", key=alias, **tolerated)


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


async def _advance(exchange: Exchange, answer: Answer, watch: Watch) -> list[Happening]:
    """Reads once, and returns what that brought."""
    try:
        data = await exchange.read(watch.wait_s())
    except UpstreamFailure as failure:
        return answer.cut(failure)
    if data is None:
        if watch.patience_is_over():
            return answer.conclude()
        watch.check()
        return []
    if not data:
        return answer.close()
    seen = answer.events
    happenings = answer.feed(data)
    watch.bytes_came(events=answer.events > seen)
    watch.end_within(answer.grace_s, renew=bool(happenings))
    return happenings


async def _explanation(exchange: Exchange, head: Head, watch: Watch) -> bytes:
    body = b""
    with contextlib.suppress(UpstreamFailure):
        body = await rest_of(exchange, watch, limit_bytes=ERROR_BYTES, within_s=ERROR_BODY_S)
        inflate = inflate_for(head.headers.get("content-encoding", ""))
        body = body if inflate is None else inflate.feed(body)
    return body
