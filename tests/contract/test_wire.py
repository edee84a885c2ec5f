"""The connections under the HTTP library: a body goes past it, and it does not notice."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from settings.model import Clocks, Key
from settings.secret import Secret
from tests.harness.asking import REQUEST, text_of
from tests.harness.wire import DONE, USAGE, chunk, delta
from worker.upstream.client import Client
from worker.upstream.link import Link

ON = ("asyncio", "engine")

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
WHOLE = delta("stop", content="all") + USAGE + DONE
LARGE = delta(content="x" * 700_000) + WHOLE


class Server:
    """Answers every request on a connection with the same bytes, and counts connections."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.connections = answer, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(server: Server, context: ssl.SSLContext | None = None) -> AsyncIterator[Key]:
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as made:
        port = made.sockets[0].getsockname()[1]
        url = f"http{'s' if context else ''}://127.0.0.1:{port}/v1"
        yield Key(alias="k", provider="simulator", base_url=url, secret=Secret("s"), account="k")


async def said(client: Client, key: Key) -> str:
    return text_of([each async for batch in client.stream(REQUEST, key) for each in batch])


@pytest.fixture
def poured(monkeypatch: pytest.MonkeyPatch) -> list[Link]:
    """The links whose bodies went past the library."""
    links: list[Link] = []
    pour = Link.pour

    async def noted(self: Link, take: Callable[[bytes], None], within_s: float) -> None:
        links.append(self)
        await pour(self, take, within_s)

    monkeypatch.setattr(Link, "pour", noted)
    return links


@pytest.mark.parametrize("before", [b"", EARLY], ids=["", "early hints"])
async def test_a_chunked_body_goes_past_the_library_and_its_connection_is_used_again(
    poured: list[Link], before: bytes
) -> None:
    server = Server(before + CHUNKED + chunk(WHOLE) + b"0\r\nx: y\r\n\r\n")
    async with serving(server) as key, Client(Clocks()) as client:
        for _ in range(3):
            assert await said(client, key) == "all"
            async with asyncio.timeout(5):
                while client.open_streams:
                    await asyncio.sleep(0.005)
    assert server.connections == 1
    assert len(poured) == 3


async def test_a_connection_with_something_behind_the_body_is_not_used_again() -> None:
    server = Server(CHUNKED + chunk(WHOLE) + b"0\r\n\r\nHTTP/1.1 200 smuggled")
    async with serving(server) as key, Client(Clocks()) as client:
        for _ in range(2):
            assert await said(client, key) == "all"
            async with asyncio.timeout(5):
                while client.open_streams:
                    await asyncio.sleep(0.005)
    assert server.connections == 2


async def test_a_body_of_a_known_length_is_read_through_the_library(poured: list[Link]) -> None:
    server = Server(HEAD + b"content-length: %d\r\n\r\n" % len(LARGE) + LARGE)
    async with serving(server) as key, Client(Clocks()) as client:
        assert (await said(client, key)).endswith("xall")
    assert poured == []


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_a_body_larger_than_the_shared_buffer_arrives_whole(
    secure: bool, tmp_path: Path, poured: list[Link]
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    root = tmp_path / "root.pem"
    authority.cert_pem.write_to_path(root)
    server = Server(CHUNKED + chunk(LARGE) + b"0\r\n\r\n")
    async with (
        serving(server, context if secure else None) as key,
        Client(Clocks(), str(root)) as client,
    ):
        texts = await asyncio.gather(*(said(client, key) for _ in range(3)))
    assert texts == ["x" * 700_000 + "all"] * 3
    assert len(poured) == 3
