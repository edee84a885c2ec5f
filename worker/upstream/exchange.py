"""One request and its answer: what lies between the connection it came on and whoever listens.

What arrives goes to the listener in the same step, in one piece a read, without a task or a future
between. While nobody listens, or the listener wants a pause, it waits here: at most `BUFFER_BYTES`,
then the socket is not read, and TCP slows the provider down. The connection belongs to a task of
its own, which nobody cancels twice, and which always closes the response, whatever happens to the
listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Valve(Protocol):
    """What can stop a socket from being read."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


def _nothing_of(_: bytes, __: float) -> int:
    return 0


def _never() -> bool:
    return False


class Exchange:
    """`head`, `read`, `listen`, `pause`, `resume`, `stirred`, `release` and `abort` are the
    listener's; the rest is the owning task's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._head: Head | None = None
        self._hear: Callable[[bytes], None] | None = None
        self._hear_usual: Callable[[bytes, float], int] = _nothing_of
        #: Hands on what came, or keeps it while nobody wants it. Each read goes through these, so
        #: they are the listener's own while that may have it.
        self.put: Callable[[bytes], None] = self._keep
        #: Hands on what a read begins with as far as that is usual, and when it came; how many
        #: bytes that was.
        self.put_usual: Callable[[bytes, float], int] = _nothing_of
        self._paused = False
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._valve: Valve | None = None
        self._ended = False
        self.failure: UpstreamFailure | None = None
        self._stirred = False
        self._listener: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._released = False
        self._sealed = False
        self._task: asyncio.Task[None] | None = None

    async def head(self, wait_s: float) -> Head | None:
        """The answer's head, or None when it did not come within `wait_s`."""
        if self._head is None and not self._ended:
            await self.stirred(wait_s)
        if self._head is None and self.failure is not None:
            raise self.failure
        return self._head

    async def read(self, wait_s: float) -> bytes | None:
        """All that came since the last read; None after `wait_s` without a byte; b"" at the end.

        Raises the connection's failure once everything that came before it was read.
        """
        if not self._pieces and not self._ended:
            await self.stirred(wait_s)
        if self._pieces:
            return self._taken()
        if not self._ended:
            return None
        if self.failure is not None:
            raise self.failure
        return b""

    def listen(
        self, hear: Callable[[bytes], None], usual: Callable[[bytes, float], int] = _nothing_of
    ) -> None:
        """Gives what came, and from now on what comes, to `hear`; and to `usual` first whatever may
        begin with usual chunks, in its frame and with its time: it returns how much it took."""
        self._hear, self._hear_usual = hear, usual
        self.resume()

    def pause(self) -> None:
        """Keep what comes for a while."""
        self._paused = True
        self._route()

    def resume(self) -> None:
        """Gives what came meanwhile, in one piece."""
        self._paused = False
        if self._hear is None:
            return
        data = self._taken()
        self._route()
        if data:
            self._hear(data)

    @property
    def ended(self) -> bool:
        """Nothing more will come, and all that came was given; `failure` says why, None at a clean
        end."""
        return self._ended and not self._pieces

    async def stirred(self, wait_s: float) -> bool:
        """Waits for the head, the end or `stir`; False when none came within `wait_s`."""
        if not self._stirred:
            self._listener = self._loop.create_future()
            timer = self._loop.call_later(wait_s, _wake, self._listener)
            try:
                await self._listener
            finally:
                timer.cancel()
        stirred, self._stirred = self._stirred, False
        return stirred

    def stir(self) -> None:
        self._stirred = True
        _wake(self._listener)

    def release(self) -> None:
        """Reads on for a moment, so that the connection can be used again, and then lets go."""
        self._released = True
        self._route()
        self._taken()
        if not self._sealed:
            self._loop.call_later(RELEASE_S, self._cancel)

    def abort(self) -> None:
        """Closes the connection, unless it was released."""
        if not self._released:
            self._released = True
            self._route()
            self._cancel()

    def owned_by(self, task: asyncio.Task[None], tender: Callable[[], bool] = _never) -> None:
        """`tender`: for a moment the task must not be cancelled."""
        self._task = task
        self._tender = tender

    def begin(self, head: Head) -> None:
        self._head = head
        self.stir()

    def through(self, valve: Valve) -> None:
        """What comes, comes through this."""
        self._valve = valve

    def _route(self) -> None:
        if self._released:
            # The listener holds the exchange, which must not hold it any more.
            self._hear, self._hear_usual = None, _nothing_of
            self.put, self.put_usual = _drop, _nothing_of
        elif self._hear is None or self._paused:
            self.put, self.put_usual = self._keep, _nothing_of
        else:
            self.put, self.put_usual = self._hear, self._hear_usual

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > BUFFER_BYTES and self._valve is not None:
            self._valve.pause()
        self.stir()

    async def room(self) -> None:
        """Waits while too much of what came is not listened to."""
        while self._waiting_bytes > BUFFER_BYTES and not self._released:
            self._room = self._loop.create_future()
            await self._room

    def end(self, failure: UpstreamFailure | None) -> None:
        """Nothing more will come; None is the clean end of the body."""
        self.failure = failure
        self._ended = True
        # A task that was cancelled keeps its frame, and with it the exchange.
        self._task, self._tender = None, _never
        self.stir()

    def seal(self) -> None:
        """The response is being closed: that is not to be interrupted any more."""
        self._sealed = True

    def _cancel(self) -> None:
        # A cancellation in the middle of closing would leave the connection in the pool for ever.
        if self._task is None or self._sealed:
            return
        if self._tender():
            self._loop.call_soon(self._cancel)
            return
        self._sealed = True
        self._task.cancel()

    def _taken(self) -> bytes:
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._waiting_bytes > BUFFER_BYTES and self._valve is not None:
            self._valve.resume()
        self._waiting_bytes = 0
        _wake(self._room)
        return data


def closed() -> UpstreamFailure:
    """What an exchange ends with when it was let go of before its end."""
    return UpstreamFailure(
        "the client let the connection go", kind="closed", fault="network", retryable=True
    )


def _drop(_: bytes) -> None:
    """The listener has gone."""


def _wake(sleeper: asyncio.Future[None] | None) -> None:
    if sleeper is not None and not sleeper.done():
        sleeper.set_result(None)
