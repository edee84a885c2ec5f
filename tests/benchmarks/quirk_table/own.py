"""R9 and R10, which no provider causes: connections that streams left early keep, and exceptions
of the libraries below that leak out. Both are built here, the same for both clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio
import h11
import httpx

from settings.model import Clocks
from tests.benchmarks.quirk_table import official, ours
from tests.benchmarks.quirk_table.seen import Question, Seen, Sent
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Text

CONNECTIONS = 3
POOL_S = 1.0
#: More than there are connections.
LEFT_EARLY = 7

ERRORS: dict[str, Exception] = {
    "ssl.SSLError": ssl.SSLError(1, "record layer failure"),
    "anyio.EndOfStream": anyio.EndOfStream(),
    "h11.RemoteProtocolError": h11.RemoteProtocolError("peer closed"),
}

_BEGUN = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'

#: Reads one answer up to its first text, and says so; then it leaves, or stays and listens on.
Begin = Callable[[Any, Question, asyncio.Event, bool], Awaitable[None]]


async def begin_ours(client: Client, question: Question, begun: asyncio.Event, stay: bool) -> None:
    stream = client.stream(ours.request_of(question), ours.key_of(question))
    async with aclosing(stream) as lists:
        async for happenings in lists:
            if any(isinstance(happening, Text) for happening in happenings):
                begun.set()
            if begun.is_set() and not stay:
                return


async def begin_official(client: Any, question: Question, begun: asyncio.Event, stay: bool) -> None:
    messages = [{"role": "user", "content": question.prompt}]
    stream = await client.chat.completions.create(
        model=question.model, messages=messages, stream=True
    )
    async with stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                begun.set()
            if begun.is_set() and not stay:
                return


async def exhaust(begin: Begin, client: Any, stalling: Question, cancels: int) -> None:
    """Begins many streams, and leaves each: by itself, or cancelled once or twice."""
    for _ in range(LEFT_EARLY):
        begun = asyncio.Event()
        task = asyncio.ensure_future(begin(client, stalling, begun, cancels > 0))
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=POOL_S + 1)
        waiting.cancel()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(task, return_exceptions=True)


def small_client() -> Client:
    return Client(Clocks(pool_s=POOL_S), streams=CONNECTIONS)


def small_official(question: Question) -> Any:
    import httpx2
    import openai

    http = openai.DefaultAsyncHttpxClient(
        limits=httpx2.Limits(max_connections=CONNECTIONS),
        timeout=httpx2.Timeout(10.0, pool=POOL_S),
    )
    return official.client_of(question, http_client=http)


def broken(http: Any, error: Exception, *, midway: bool) -> Any:
    """A transport of `http` that raises `error`, at once or after the first text."""

    async def body() -> AsyncIterator[bytes]:
        yield _BEGUN
        raise error

    class Broken(http.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, _: Any) -> Any:
            if not midway:
                raise error
            return http.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    return Broken()


def said_before(*, midway: bool) -> Sent:
    """What a broken transport had to give."""
    text = "a" if midway else ""
    return Sent(1, text, text, (0, 0, 0), ())


async def leak_ours(question: Question, error: Exception, *, midway: bool) -> Seen:
    seen = Seen(thinking="")
    async with Client(Clocks()) as client:
        await client._transport._client.aclose()
        client._transport._client = httpx.AsyncClient(transport=broken(httpx, error, midway=midway))
        try:
            async for happenings in client.stream(ours.request_of(question), ours.key_of(question)):
                seen.text += "".join(h.text for h in happenings if isinstance(h, Text))
        except UpstreamFailure as failure:
            ours.note_failure(failure, seen)
        except Exception as leaked:
            seen.error, seen.ours = type(leaked).__name__, False
    return seen


async def leak_official(question: Question, error: Exception, *, midway: bool) -> Seen:
    import httpx2

    seen = Seen()
    http = httpx2.AsyncClient(transport=broken(httpx2, error, midway=midway))
    async with official.client_of(question, http_client=http) as client:
        await official.ask(client, question, seen)
    return seen
