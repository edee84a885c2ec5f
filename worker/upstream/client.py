"""The patched client: one request in, lists of happenings out, and only an earned end is an end.

`Client.stream` yields one list per read. Its last happening is `Finished`, or it raises
`UpstreamFailure`; a cut stream never ends quietly. What arrived before a failure is yielded
before it is raised. A failure of the connection after the answer's terminal is no failure.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Self

import msgspec
import structlog

from settings.model import Clocks, Key
from worker.upstream.answer import Answer, empty_answer
from worker.upstream.chat import Chat
from worker.upstream.clocks import Watch
from worker.upstream.failures import UpstreamFailure, failure_of_answer, malformed
from worker.upstream.happenings import Happening
from worker.upstream.request import Request, body_for
from worker.upstream.transport import Exchange, Head, Transport

log = structlog.get_logger(__name__)

#: As many streams as one process may run.
MAX_STREAMS = 2000

#: What is read of an error's body, and for how long: it explains, and a stuck one must not block.
ERROR_BYTES = 64 * 1024
ERROR_BODY_S = 5.0


class Client:
    """One per process: an async context manager around its connections."""

    def __init__(
        self, clocks: Clocks, ca_bundle: str | None = None, *, streams: int = MAX_STREAMS
    ) -> None:
        self._clocks = clocks
        self._transport = Transport(clocks, ca_bundle, streams=streams)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    async def stream(self, request: Request, key: Key) -> AsyncGenerator[list[Happening], None]:
        """Asks, and yields what happens, one list per read; the last happening is `Finished`."""
        body = msgspec.json.encode(body_for(request, key.profile))
        watch = Watch(self._clocks)
        exchange = self._transport.send("POST", _url(key, "chat/completions"), _headers(key), body)
        try:
            head = await _head(exchange, watch)
            answer = Answer(
                Chat(),
                head.headers.get("content-type", ""),
                head.headers.get("content-encoding", ""),
            )
            try:
                while not answer.over:
                    happenings = await _advance(exchange, answer, watch)
                    if happenings:
                        yield happenings
                        watch.resume()
                if answer.failed is not None:
                    raise answer.failed
                exchange.release()
            except UpstreamFailure as failure:
                failure.reasoning = answer.dialect.reasoning
                failure.visible = answer.dialect.visible
                failure.request_id = failure.request_id or head.request_id
                raise
            finally:
                if answer.dialect.notes:
                    log.info("upstream.noted", key=key.alias, **answer.dialect.notes)
        finally:
            exchange.abort()

    @property
    def open_streams(self) -> int:
        """Requests whose connection is not yet closed or free again."""
        return self._transport.open_exchanges

    async def models(self, key: Key) -> list[str]:
        """The ids of the models this key can see."""
        watch = Watch(self._clocks)
        exchange = self._transport.send("GET", _url(key, "models"), _headers(key))
        try:
            await _head(exchange, watch)
            body = await _rest(exchange, watch, limit_bytes=16 * 2**20)
        finally:
            exchange.abort()
        return _models_in(body)


async def _head(exchange: Exchange, watch: Watch) -> Head:
    """The head of a successful answer; raises what any other answer means."""
    while (head := await exchange.head(watch.wait_s())) is None:
        watch.check()
    watch.headers_came()
    if head.status in (204, 205):
        raise empty_answer(head.status)
    if not 200 <= head.status < 300:
        body = b""
        with contextlib.suppress(UpstreamFailure):
            body = await _rest(exchange, watch, limit_bytes=ERROR_BYTES, within_s=ERROR_BODY_S)
        raise failure_of_answer(head.status, head.headers, body)
    return head


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
    watch.end_within(answer.grace_s)
    return happenings


async def _rest(
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


def _models_in(body: bytes) -> list[str]:
    try:
        document = json.loads(body)
        listed = document.get("data") or document.get("models") or []
        names = [entry if isinstance(entry, str) else entry["id"] for entry in listed]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise malformed("the list of models is not one", body) from None
    return sorted(map(str, names))


def _url(key: Key, path: str) -> str:
    return f"{key.base_url.rstrip('/')}/{path}"


def _headers(key: Key) -> Mapping[str, str]:
    return {
        "Authorization": f"Bearer {key.secret.get_secret_value()}",
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        # A compressor between us and the provider holds bytes back until its block is full.
        "Accept-Encoding": "identity",
        "User-Agent": "longstream",
    }
