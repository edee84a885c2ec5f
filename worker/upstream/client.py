"""The patched client: one request in, lists of happenings out, and only an earned end is an end.

`Client.stream` yields what came since, list by list. Its last happening is `Finished`, or it raises
`UpstreamFailure`; a cut stream never ends quietly. What arrived before a failure is yielded
before it is raised. A failure of the connection after the answer's terminal is no failure.
A reader that leaves early closes the generator (`contextlib.aclosing`), and so the connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec
import structlog

from settings.model import Clocks, Key
from worker.upstream.answer import Dialect
from worker.upstream.chat import Chat
from worker.upstream.clocks import Watch
from worker.upstream.exchange import Exchange, Head
from worker.upstream.failures import UpstreamFailure, malformed
from worker.upstream.following import Take, TakeOne, follow, opened, rest_of
from worker.upstream.generation import usage_in
from worker.upstream.happenings import Happening, Resumable, Usage
from worker.upstream.limits import limits_in
from worker.upstream.lists import lists
from worker.upstream.negotiation import Refusals, refused_parameter
from worker.upstream.request import Request, body_for
from worker.upstream.response_shapes import usage_of
from worker.upstream.responses import Responses
from worker.upstream.transport import Transport

_log = structlog.get_logger(__name__)

#: As many streams as one process may run.
MAX_STREAMS = 2000

#: A background response that can no longer be streamed is asked for this often.
POLL_S = 2.0

_JSON_BYTES = 64 * 2**20


class Client:
    """One per process: an async context manager around its connections."""

    def __init__(
        self, clocks: Clocks, ca_bundle: str | None = None, *, streams: int = MAX_STREAMS
    ) -> None:
        self._clocks = clocks
        self._transport = Transport(clocks, ca_bundle, streams=streams)
        self._refusals = Refusals()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.close()

    @property
    def open_streams(self) -> int:
        """Requests whose connection is not yet closed or free again."""
        return self._transport.open_exchanges

    async def stream_into(
        self,
        request: Request,
        key: Key,
        take: Take,
        begun: Callable[[str], None] | None = None,
        *,
        one: TakeOne | None = None,
    ) -> None:
        """Asks, and gives `take` what happens, one list a read; the last happening is `Finished`.
        A usual chunk's one piece of text or reasoning is given to `one` alone. When they return
        something to wait for, the stream pauses until then. `begun` is told the id of a chat
        stream, for `used`."""
        exchange, head, watch, body = await self._ask(request, key)
        dialect = _dialect(request, body, begun)
        limits = limits_in(head.headers)
        first: list[Happening] = [limits] if limits else []
        await follow(exchange, head, dialect, watch, key.alias, take, one, first)

    async def resume_into(self, key: Key, at: Resumable, said: str, take: Take) -> None:
        """Takes a background response up again after `at`; `said` is the text delivered so far.

        When the provider no longer streams it, it is polled, and the missing rest delivered.
        """
        watch = Watch(self._clocks)
        dialect = Responses(resumed=at, said=said)
        path = f"responses/{at.response_id}?stream=true&starting_after={at.sequence}"
        exchange = self._send("GET", key, path)
        try:
            head = await opened(exchange, watch)
        except UpstreamFailure as failure:
            if failure.status != 400:
                raise
            pause = take(await self._polled(key, at.response_id, dialect))
            if pause is not None:
                await pause
            return
        await follow(exchange, head, dialect, watch, key.alias, take)

    async def stream(self, request: Request, key: Key) -> AsyncGenerator[list[Happening], None]:
        """`stream_into` as a generator: lists of what came since the one before."""
        async with aclosing(lists(partial(self.stream_into, request, key))) as found:
            async for happenings in found:
                yield happenings

    async def resume(
        self, key: Key, at: Resumable, said: str = ""
    ) -> AsyncGenerator[list[Happening], None]:
        """`resume_into` as a generator."""
        async with aclosing(lists(partial(self.resume_into, key, at, said))) as found:
            async for happenings in found:
                yield happenings

    async def cancel(self, key: Key, response_id: str) -> Usage | None:
        """Stops a background response at the provider; one that has ended stays as it is. What it
        has used, if the provider says."""
        body = await self._whole("POST", key, f"responses/{response_id}/cancel")
        try:
            response = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return None
        return usage_of(response) if isinstance(response, dict) else None

    async def used(self, key: Key, response_id: str) -> Usage | None:
        """What the answer of this id has used; None when the provider does not say, or not yet."""
        path = key.profile.usage_path
        if path is None:
            return None
        body = await self._whole("GET", key, path.format(id=quote(response_id, safe="")))
        return usage_in(body)

    async def models(self, key: Key) -> list[str]:
        """The ids of the models this key can see."""
        body = await self._whole("GET", key, "models")
        try:
            document = json.loads(body)
            listed = document.get("data") or document.get("models") or []
            names = [entry if isinstance(entry, str) else entry["id"] for entry in listed]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise malformed("the list of models is not one", body) from None
        return sorted(map(str, names))

    async def _ask(
        self, request: Request, key: Key
    ) -> tuple[Exchange, Head, Watch, Mapping[str, Any]]:
        """Posts the request; again without a parameter of ours that the provider refuses."""
        path = "responses" if key.profile.dialect == "responses" else "chat/completions"
        while True:
            dropped = self._refusals.of(key.base_url, request.model)
            body = body_for(request, key.profile, dropped)
            exchange, watch = self._send("POST", key, path, body), Watch(self._clocks)
            try:
                return exchange, await opened(exchange, watch), watch, body
            except UpstreamFailure as failure:
                ours = {n: v for n, v in body.items() if n not in request.extra_body}
                name = refused_parameter(failure, ours)
                if name is None:
                    raise
                self._refusals.add(key.base_url, request.model, name)
                _log.warning(
                    "upstream.parameter_dropped",
                    key=key.alias,
                    model=request.model,
                    parameter=name,
                )

    async def _polled(self, key: Key, response_id: str, dialect: Responses) -> list[Happening]:
        """Asks for a response until it has ended; what it adds, and its end."""
        watch = Watch(self._clocks)
        while True:
            body = await self._whole("GET", key, f"responses/{response_id}")
            if not _is_running(body):
                happenings = dialect.whole(body)
                if dialect.failed is not None:
                    raise dialect.failed
                return [*happenings, *dialect.finish()]
            watch.headers_came()
            watch.check()
            await asyncio.sleep(POLL_S)

    async def _whole(self, method: str, key: Key, path: str) -> bytes:
        """The body of an answer that is no stream."""
        watch = Watch(self._clocks)
        exchange = self._send(method, key, path)
        try:
            await opened(exchange, watch)
            body = await rest_of(exchange, watch, limit_bytes=_JSON_BYTES)
            exchange.release()
        finally:
            exchange.abort()
        return body

    def _send(
        self, method: str, key: Key, path: str, body: Mapping[str, Any] | None = None
    ) -> Exchange:
        content = None if body is None else msgspec.json.encode(body)
        return self._transport.send(method, _url(key.base_url, path), _headers(key), content)


def _dialect(
    request: Request, body: Mapping[str, Any], begun: Callable[[str], None] | None
) -> Dialect:
    if "input" in body:
        return Responses()
    expected = "stream_options" in body
    return Chat(usage_expected=expected, inline_thinking=request.inline_thinking, begun=begun)


def _url(base_url: str, path: str) -> str:
    """`path` under `base_url`; a query there, such as an API version, stays in its place."""
    base, _, fixed = base_url.partition("?")
    path, _, query = path.partition("?")
    joined = "&".join(part for part in (fixed, query) if part)
    return f"{base.rstrip('/')}/{path}{'?' if joined else ''}{joined}"


def _is_running(body: bytes) -> bool:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return isinstance(document, dict) and document.get("status") in ("queued", "in_progress")


def _headers(key: Key) -> Mapping[str, str]:
    return {
        "Authorization": f"Bearer {key.secret.get_secret_value()}",
        "Content-Type": "application/json",
        "Accept": "text/event-stream, application/json",
        # A compressor between us and the provider holds bytes back until its block is full.
        "Accept-Encoding": "identity",
        "User-Agent": "longstream",
    }
