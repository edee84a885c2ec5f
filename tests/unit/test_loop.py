"""The engine's loop serves files beside its own business, and neither keeps the other waiting."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from worker.sockets.direct import Direct, source_of
from worker.sockets.loop import Loop

ON = ("engine",)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def loop() -> Loop:
    running = asyncio.get_running_loop()
    assert isinstance(running, Loop)
    return running


async def test_what_a_served_file_brings_is_taken_while_nothing_else_happens(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    loop().turn.serve(ours.fileno(), lambda: taken.put_nowait(ours.recv(99)))
    async with asyncio.timeout(5):
        for said in (b"a", b"b"):
            theirs.send(said)
            assert await taken.get() == said
    loop().turn.leave(ours.fileno())


async def test_a_file_that_was_left_is_not_read(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    turn = loop().turn
    turn.serve(ours.fileno(), lambda: pytest.fail("read"))
    turn.leave(ours.fileno())
    theirs.send(b"a")
    await asyncio.sleep(0.01)
    assert ours.recv(9) == b"a"


async def test_timers_and_callbacks_come_in_time_while_a_file_never_falls_silent(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The file is left unread, so it is always ready."""
    ours, theirs = pair
    theirs.send(b"a")
    served = 0

    def ready() -> None:
        nonlocal served
        served += 1

    loop().turn.serve(ours.fileno(), ready)
    async with asyncio.timeout(5):
        await asyncio.sleep(0.02)
        before = served
        await asyncio.to_thread(lambda: None)
        while served == before:
            await asyncio.sleep(0)
    loop().turn.leave(ours.fileno())


async def test_what_is_due_is_done_once_behind_everything_that_was_ready() -> None:
    first, second = socket.socketpair(), socket.socketpair()
    seen: list[str] = []
    done = asyncio.Event()

    def ready(name: str, sock: socket.socket) -> None:
        sock.recv(9)
        seen.append(name)
        if len(seen) == 1:
            loop().turn.soon(lambda: (seen.append("due"), done.set()))

    for name, (ours, theirs) in (("a", first), ("b", second)):
        theirs.send(b"x")
        loop().turn.serve(ours.fileno(), lambda name=name, ours=ours: ready(name, ours))  # type: ignore[misc]
    async with asyncio.timeout(5):
        await done.wait()
    assert seen == ["a", "b", "due"]
    for ours, theirs in (first, second):
        loop().turn.leave(ours.fileno())
        ours.close()
        theirs.close()


async def test_what_is_due_may_begin_a_task_while_nothing_else_happens() -> None:
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()

    begun: list[asyncio.Task[None]] = []
    loop().turn.soon(lambda: begun.append(asyncio.create_task(run())))
    async with asyncio.timeout(5):
        await ran.wait()


async def test_another_thread_wakes_a_loop_that_serves(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, _ = pair
    running, woken = loop(), asyncio.Event()
    running.turn.serve(ours.fileno(), lambda: None)
    thread = threading.Thread(target=lambda: running.call_soon_threadsafe(woken.set))
    thread.start()
    async with asyncio.timeout(5):
        await woken.wait()
    thread.join()
    running.turn.leave(ours.fileno())


async def test_an_owner_that_fails_is_told_of_and_the_others_are_served(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    told: list[object] = []
    loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    calls = 0
    again = asyncio.Event()

    def ready() -> None:
        nonlocal calls
        ours.recv(9)
        calls += 1
        if calls == 1:
            theirs.send(b"b")
            raise ZeroDivisionError
        again.set()

    loop().turn.serve(ours.fileno(), ready)
    theirs.send(b"a")
    async with asyncio.timeout(5):
        await again.wait()
    assert [type(each) for each in told] == [ZeroDivisionError]
    loop().turn.leave(ours.fileno())


async def test_a_transport_writes_on_while_its_socket_is_served() -> None:
    """More than the socket takes at once: the loop watches the same file for writing."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    taken: asyncio.Queue[bytes] = asyncio.Queue()
    transport = writer.transport
    transport.pause_reading()
    source = source_of(transport, taken.put_nowait)
    assert isinstance(source, Direct)
    source.resume_reading()
    sent = os.urandom(4_000_000)
    writer.write(sent)

    def other_side() -> bytes:
        theirs.sendall(b"hello")
        got = bytearray()
        while len(got) < len(sent):
            got += theirs.recv(1 << 16)
        return bytes(got)

    async with asyncio.timeout(20):
        assert await asyncio.to_thread(other_side) == sent
        assert await taken.get() == b"hello"
    source.pause_reading()
    theirs.close()
    writer.close()
    assert not reader.at_eof()


async def test_the_end_of_a_served_socket_is_the_transports_to_see() -> None:
    ours, theirs = socket.socketpair()
    lost = asyncio.Event()

    class Protocol(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            source.pause_reading()
            lost.set()

    transport, _ = await loop().create_connection(Protocol, sock=ours)
    transport.pause_reading()
    taken: list[bytes] = []
    source = source_of(transport, taken.append)
    source.resume_reading()
    theirs.send(b"last words")
    theirs.close()
    async with asyncio.timeout(5):
        await lost.wait()
    assert taken == [b"last words"]
