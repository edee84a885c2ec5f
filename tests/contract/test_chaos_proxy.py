"""The cable of a chaos run: passes bytes, holds them, and breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tasks.local.chaos.proxy import Proxy


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1000):
        writer.write(piece)
    writer.close()


@asynccontextmanager
async def cable(tmp_path: Path, *, unix: bool) -> AsyncIterator[tuple[Proxy, Streams]]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    proxy = Proxy(int(server.sockets[0].getsockname()[1]))
    port = await proxy.open(tmp_path / "cable.sock" if unix else None)
    if unix:
        streams = await asyncio.open_unix_connection(tmp_path / "cable.sock")
    else:
        streams = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield proxy, streams
    finally:
        streams[1].close()
        await proxy.close()
        server.close()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.mark.parametrize("unix", [True, False])
async def test_bytes_pass_and_wait_while_the_cable_is_held(tmp_path: Path, unix: bool) -> None:
    async with cable(tmp_path, unix=unix) as (proxy, (reader, writer)):
        writer.write(b"one")
        assert await reader.readexactly(3) == b"one"
        proxy.hold()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.2)
        proxy.release()
        assert await reader.readexactly(3) == b"two"


async def test_a_reset_ends_every_connection_and_new_ones_work(tmp_path: Path) -> None:
    async with cable(tmp_path, unix=False) as (proxy, (reader, writer)):
        writer.write(b"one")
        await reader.readexactly(3)
        assert proxy.reset() == 2
        with pytest.raises(ConnectionResetError):
            await reader.read(1)


async def test_an_end_is_passed_on(tmp_path: Path) -> None:
    async with cable(tmp_path, unix=True) as (_, (reader, writer)):
        writer.write(b"one")
        writer.write_eof()
        assert await reader.read() == b"one"
