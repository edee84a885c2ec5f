"""One request and its answer: the bounded buffer between the task that reads and whoever listens.

Each exchange is owned by a task of its own, which nobody cancels twice: it reads what arrives, and
always closes the response, whatever happens to the listener. `read` gives everything that came
since the last read in one piece, so a burst in two hundred HTTP chunks is one read. At most
`BUFFER_BYTES` wait for the listener; then the socket is not read, and TCP slows the provider down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from worker.upstream.failures import UpstreamFailure, request_id_in

#: Beyond this the listener is behind, and the socket is left alone until it caught up.
BUFFER_BYTES = 512 * 1024

#: After the end of an answer, for the last bytes that let the connection be used again.
RELEASE_S = 0.2


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]

    @property
    def request_id(self) -> str | None:
        return request_id_in(self.headers)


class Exchange:
    """`head`, `read`, `release` and `abort` are the listener's; the rest is the owning task's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._ended = False
        self._failure: UpstreamFailure | None = None
        self._listener: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._released = False
        self._sealed = False
        self._task: asyncio.Task[None] | None = None

    async def head(self, wait_s: float) -> Head | None:
        """The answer's head, or None when it did not come within `wait_s`."""
        if self._head is None and not self._ended:
            await self._sleep(wait_s)
        if self._head is None and self._failure is not None:
            raise self._failure
        return self._head

    async def read(self, wait_s: float) -> bytes | None:
        """All that came since the last read; None after `wait_s` without a byte; b"" at the end.

        Raises the connection's failure once everything that came before it was read.
        """
        if not self._pieces and not self._ended:
            await self._sleep(wait_s)
        if self._pieces:
            return self._take()
        if not self._ended:
            return None
        if self._failure is not None:
            raise self._failure
        return b""

    def release(self) -> None:
        """Reads on for a moment, so that the connection can be used again, and then lets go."""
        self._released = True
        self._pieces.clear()
        _wake(self._room)
        if not self._sealed:
            self._loop.call_later(RELEASE_S, self._cancel)

    def abort(self) -> None:
        """Closes the connection, unless it was released."""
        if not self._released:
            self._released = True
            self._cancel()

    def owned_by(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def begin(self, head: Head) -> None:
        self._head = head
        _wake(self._listener)

    async def put(self, piece: bytes) -> None:
        """Hands on what came, and waits while too much of it is not listened to."""
        if self._released:
            return
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)
        _wake(self._listener)
        while self._waiting_bytes > BUFFER_BYTES and not self._released:
            self._room = self._loop.create_future()
            await self._room

    def end(self, failure: UpstreamFailure | None) -> None:
        """Nothing more will come; None is the clean end of the body."""
        self._failure = failure
        self._ended = True
        _wake(self._listener)

    def seal(self) -> None:
        """The response is being closed: that is not to be interrupted any more."""
        self._sealed = True

    def _cancel(self) -> None:
        # A cancellation in the middle of closing would leave the connection in the pool for ever.
        if self._task is not None and not self._sealed:
            self._sealed = True
            self._task.cancel()

    def _take(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        _wake(self._room)
        return data

    async def _sleep(self, wait_s: float) -> None:
        self._listener = self._loop.create_future()
        timer = self._loop.call_later(wait_s, _wake, self._listener)
        try:
            await self._listener
        finally:
            timer.cancel()


def closed() -> UpstreamFailure:
    """What an exchange ends with when it was let go of before its end."""
    return UpstreamFailure(
        "the client let the connection go", kind="closed", fault="network", retryable=True
    )


def _wake(sleeper: asyncio.Future[None] | None) -> None:
    if sleeper is not None and not sleeper.done():
        sleeper.set_result(None)
