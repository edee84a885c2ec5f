"""What comes through a transport, read from its socket and past it, where the loop serves files.

The transport still connects, writes and closes, and is told of the end. While a `Direct` reads, it
must not: whoever owns both pauses one before resuming the other.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from worker.sockets.loop import Loop, Selector

#: Bytes of one read: the system's allocator keeps room for these at hand, while it fetches that for
#: asyncio's 256 KB anew each time, which takes 14 us more than reading 400 bytes does.
_READ_BYTES = 64 * 1024


class Direct:
    """Stands in for the transport as what is read."""

    def __init__(
        self, turn: Selector, transport: asyncio.Transport, take: Callable[[bytes], None]
    ) -> None:
        self._turn = turn
        self._transport = transport
        self._take = take
        self._fd: int = transport.get_extra_info("socket").fileno()
        #: What the socket failed with; the transport is not told.
        self.error: OSError | None = None

    def pause_reading(self) -> None:
        """Also before the socket is closed: when the connection is lost, at the latest."""
        self._turn.leave(self._fd)

    def resume_reading(self) -> None:
        self._turn.serve(self._fd, self._ready)

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.error = error
            self.pause_reading()
            self._transport.abort()
            return
        if data:
            self._take(data)
        else:
            # The transport finds the same end, and does what is to be done then.
            self.pause_reading()
            self._transport.resume_reading()


def source_of(
    transport: asyncio.Transport, take: Callable[[bytes], None]
) -> Direct | asyncio.Transport:
    """What to read: the transport itself where it decrypts, or where another loop runs."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop) or transport.get_extra_info("sslcontext") is not None:
        return transport
    return Direct(loop.turn, transport, take)
