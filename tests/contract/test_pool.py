"""Connections: closed in every case, bounded, slowed down by a slow listener, kept alive."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
from typing import Any

import pytest

from settings.model import Clocks
from tests.harness.asking import REQUEST, key_for, quick_client, text_of
from tests.harness.wire import (
    DONE,
    END,
    HANG,
    PAUSE,
    USAGE,
    Received,
    Script,
    WireServer,
    chunk,
    delta,
    head,
    plain,
    stream,
)
from worker.upstream.client import Client
from worker.upstream.exchange import BUFFER_BYTES
from worker.upstream.routes import POOL_STREAMS

WHOLE = stream(delta("stop", content="a") + USAGE + DONE)


def pools_of(client: Client) -> Any:
    routes: Any = client._transport._client._transport
    return routes._through[None]


def streams_of(client: Client) -> list[int]:
    return [pool.streams for pool in pools_of(client)._pools]


def connections_of(client: Client) -> list[Any]:
    return [each for pool in pools_of(client)._pools for each in pool.transport._pool.connections]


async def idle(client: Client) -> None:
    async with asyncio.timeout(10):
        while client.open_streams:
            await asyncio.sleep(0.005)


@pytest.mark.timeout(120)
async def test_no_connection_leaks_after_a_thousand_cancelled_streams() -> None:
    dice = random.Random(11)
    scripts: list[Script] = [
        [HANG],
        [head(), HANG],
        [head(), chunk(delta(content="a")), HANG],
        [head(), *[chunk(delta(reasoning="r")), PAUSE] * 50],
        [plain("429 No", b"{}")],
        WHOLE,
    ]

    async def leave(client: Client, server: WireServer) -> None:
        reader = asyncio.create_task(read(client, server))
        await asyncio.sleep(dice.choice([0, 0.001, 0.005, 0.02]))
        reader.cancel()
        if dice.random() < 0.5:
            await asyncio.sleep(0)
            reader.cancel()
        await asyncio.wait([reader])

    def script(_: Received) -> Script:
        return dice.choice(scripts)

    async with quick_client(Clocks(pool_s=20)) as client, WireServer(script) as server:
        for _ in range(20):
            await asyncio.gather(*(leave(client, server) for _ in range(50)))
        await idle(client)

        pools = pools_of(client)
        assert not any(pool.transport._pool._requests for pool in pools._pools)
        assert all(connection.is_idle() for connection in connections_of(client))
        assert not any(pool.streams for pool in pools._pools)
        server._script = WHOLE
        assert await read(client, server) == "a"


async def read(client: Client, server: WireServer) -> str:
    lists = client.stream(REQUEST, key_for(server))
    return text_of([happening async for batch in lists for happening in batch])


async def test_few_connections_are_kept_idle_however_many_streams_end() -> None:
    meet = asyncio.Event()
    script: Script = [head(), chunk(delta(content="a")), meet, *WHOLE[1:]]
    async with quick_client() as client, WireServer(script) as server:
        readers = [asyncio.create_task(read(client, server)) for _ in range(60)]
        while server.open < 60:
            await asyncio.sleep(0.005)
        meet.set()
        await asyncio.wait(readers)
        await idle(client)

        assert len(connections_of(client)) <= POOL_STREAMS


async def test_a_connection_is_used_again_however_many_others_there_are() -> None:
    """The library counts those in use among the idle ones that are too many."""
    meet, others = asyncio.Event(), POOL_STREAMS - 1
    scripts: list[Script] = [[head(), chunk(delta(content="a")), meet, *WHOLE[1:]]] * others

    def script(_: Received) -> Script:
        return scripts.pop() if scripts else WHOLE

    async with quick_client() as client, WireServer(script) as server:
        readers = [asyncio.create_task(read(client, server)) for _ in range(others)]
        async with asyncio.timeout(30):
            while server.open < others:
                await asyncio.sleep(0.005)
        for _ in range(5):
            assert await read(client, server) == "a"
        assert server.connections == others + 1
        meet.set()
        await asyncio.wait(readers)


async def test_many_streams_share_out_over_pools_and_the_first_with_room_is_taken() -> None:
    """A pool looks at all its connections whenever a stream begins or ends."""
    meet, many = asyncio.Event(), 2 * POOL_STREAMS + 2
    script: Script = [head(), chunk(delta(content="a")), meet, *WHOLE[1:]]
    async with quick_client() as client, WireServer(script) as server:
        readers = [asyncio.create_task(read(client, server)) for _ in range(many)]
        async with asyncio.timeout(30):
            while server.open < many:
                await asyncio.sleep(0.005)
        assert streams_of(client) == [POOL_STREAMS, POOL_STREAMS, 2]
        meet.set()
        await asyncio.wait(readers)
        await idle(client)
        assert streams_of(client) == [0], "pools without streams are closed"
        assert await read(client, server) == "aa"


async def test_a_pool_whose_last_stream_had_no_answer_is_closed_too() -> None:
    meet = asyncio.Event()
    asked: Script = [head(), chunk(delta(content="a")), HANG]
    scripts: list[Script] = [[HANG], [head(), meet, *WHOLE[1:]], *[asked] * POOL_STREAMS]

    async with quick_client() as client, WireServer(lambda _: scripts.pop()) as server:
        readers = []
        for number in range(1, POOL_STREAMS + 3):
            readers.append(asyncio.create_task(read(client, server)))
            async with asyncio.timeout(30):
                while len(server.requests) < number:
                    await asyncio.sleep(0.001)
        *others, whole, mute = readers
        meet.set()
        assert await whole == "a"
        mute.cancel()
        async with asyncio.timeout(10):
            while client.open_streams > len(others):
                await asyncio.sleep(0.005)

        assert streams_of(client) == [POOL_STREAMS]
        for other in others:
            other.cancel()
        await asyncio.wait(others)


async def test_streams_beyond_the_limit_wait_for_a_connection_and_then_say_so() -> None:
    async with (
        Client(Clocks(pool_s=0.1), streams=1) as client,
        WireServer([head(), chunk(delta(content="a")), HANG]) as server,
    ):
        first = client.stream(REQUEST, key_for(server))
        await anext(first)
        with pytest.raises(Exception, match="no free connection") as caught:
            await anext(client.stream(REQUEST, key_for(server)))
        await first.aclose()

    assert getattr(caught.value, "kind", None) == "pool_timeout"


async def test_a_slow_listener_slows_the_provider_down_and_loses_nothing() -> None:
    sent = 0
    words = [f"{n:05} " + "x" * 1000 for n in range(20_000)]

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head())
        for word in words:
            data = chunk(delta(content=word))
            writer.write(data)
            await writer.drain()
            sent += len(data)
        writer.write(chunk(delta("stop") + DONE) + END)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(flood, "127.0.0.1", 0)
    server = WireServer([])
    server.port = listening.sockets[0].getsockname()[1]
    async with quick_client() as client, listening:
        lists = client.stream(REQUEST, key_for(server))
        seen = list(await anext(lists))
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < BUFFER_BYTES + 16 * 2**20
        async for batch in lists:
            seen += batch

    assert text_of(seen) == "".join(words)


async def test_closing_the_client_closes_what_is_still_open() -> None:
    async with WireServer([head(), chunk(delta(content="a")), HANG]) as server:
        async with quick_client() as client:
            lists = client.stream(REQUEST, key_for(server))
            await anext(lists)
        with pytest.raises(Exception, match="let the connection go"):
            await anext(lists)

        await server.all_closed()


async def test_every_connection_is_kept_alive_by_tcp() -> None:
    async with (
        quick_client() as client,
        WireServer([head(), chunk(delta(content="a")), HANG]) as server,
    ):
        lists = client.stream(REQUEST, key_for(server))
        await anext(lists)
        ours = [found for found in gc.get_objects() if goes_to(found, server.port)]
        options = [found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for found in ours]
        idle_s = [found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) for found in ours]
        await lists.aclose()

    assert options == [1]
    assert idle_s == [30]


def goes_to(found: object, port: int) -> bool:
    try:
        is_tcp = isinstance(found, socket.socket) and found.family == socket.AF_INET
        return is_tcp and found.getpeername()[1] == port
    except OSError:
        return False


async def test_an_answer_is_asked_for_over_http_1_1_and_unpacked() -> None:
    async with quick_client() as client, WireServer(WHOLE) as server:
        await read(client, server)

        assert server.requests[0].version == "HTTP/1.1"
        assert server.requests[0].headers["accept-encoding"] == "identity"
