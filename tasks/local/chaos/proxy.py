"""A cable between two processes: a listener that passes bytes on, and can be cut.

`hold` stops the bytes and keeps the connections, as a network that swallows packets does; `reset`
ends every connection at once.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from contextlib import suppress
from pathlib import Path

#: Close with RST instead of FIN.
_LINGER_OFF = struct.pack("ii", 1, 0)
_PIECE = 65_536


class Proxy:
    """From one address to another; each is a unix socket's path, or a TCP port on loopback."""

    def __init__(self, target: Path | int) -> None:
        self.target = target
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._links: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, at: Path | None = None) -> int:
        """Listen at a path, or on a free port, which is returned."""
        if at is not None:
            self._server = await asyncio.start_unix_server(self._accept, at)
            return 0
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def hold(self) -> None:
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def reset(self, share: float = 1.0) -> int:
        """End connections, or that share of them, with RST where there is such a thing; how many
        ends were cut."""
        links = list(self._links)
        cut = [end for link in links[: math.ceil(share * len(links))] for end in link]
        for writer in cut:
            link = writer.get_extra_info("socket")
            with suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
            writer.transport.abort()
        return len(cut)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.release()
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if isinstance(self.target, Path):
            there, to = await asyncio.open_unix_connection(self.target)
        else:
            there, to = await asyncio.open_connection("127.0.0.1", self.target)
        self._links.add((writer, to))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, to))
                both.create_task(self._copy(there, writer))
        except* OSError:
            pass
        finally:
            self._links.discard((writer, to))
            to.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_PIECE):
            await self._flowing.wait()
            writer.write(piece)
            await writer.drain()
        # One side has said all it has to say; the other may go on.
        if writer.can_write_eof():
            writer.write_eof()
