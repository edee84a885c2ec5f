"""The buffer between the task that reads and whoever listens."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from worker.upstream.exchange import BUFFER_BYTES, Exchange, Head, closed
from worker.upstream.failures import UpstreamFailure


def owned(exchange: Exchange, coroutine: object = None) -> asyncio.Task[None]:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    exchange.owned_by(task)
    return task


async def test_all_that_came_between_two_reads_is_one_piece() -> None:
    exchange = Exchange()
    for piece in (b"a", b"b", b"c"):
        exchange.put(piece)

    assert await exchange.read(1) == b"abc"
    assert await exchange.read(0.001) is None


async def test_a_failure_is_raised_after_everything_before_it_was_read() -> None:
    exchange = Exchange()
    exchange.put(b"a")
    exchange.end(closed())

    assert await exchange.read(1) == b"a"
    with pytest.raises(UpstreamFailure):
        await exchange.read(1)


async def test_a_listener_is_woken_by_what_it_waits_for() -> None:
    exchange = Exchange()
    head = asyncio.create_task(exchange.head(5))
    await asyncio.sleep(0)
    exchange.begin(Head(200, {}))
    assert (await head) == Head(200, {})

    end = asyncio.create_task(exchange.read(5))
    await asyncio.sleep(0)
    exchange.end(None)
    assert await end == b""


async def test_a_full_buffer_holds_the_reader_until_it_is_listened_to() -> None:
    exchange = Exchange()
    exchange.put(bytes(BUFFER_BYTES + 1))
    full = asyncio.create_task(exchange.room())
    await asyncio.sleep(0.01)
    assert not full.done()

    await exchange.read(1)
    await asyncio.wait_for(full, 1)


@pytest.mark.parametrize("leave", [Exchange.release, Exchange.abort])
async def test_a_held_reader_is_freed_by_whoever_leaves(leave: object) -> None:
    exchange = Exchange()
    exchange.put(bytes(BUFFER_BYTES + 1))
    exchange.owned_by(asyncio.create_task(exchange.room()))
    await asyncio.sleep(0)
    leave(exchange)  # type: ignore[operator]

    assert exchange._task is not None
    await asyncio.wait([exchange._task], timeout=1)
    assert exchange._task.done()


async def test_the_owner_is_cancelled_once_however_often_it_is_left() -> None:
    exchange = Exchange()
    task = owned(exchange)
    for _ in range(3):
        exchange.abort()

    assert task.cancelling() == 1
    await asyncio.wait([task])


async def test_what_was_let_go_of_is_gone_without_a_search() -> None:
    """A task that was cancelled keeps its frame."""

    async def own(exchange: Exchange) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            exchange.end(closed())

    async def leave() -> weakref.ref[Exchange]:
        exchange = Exchange()
        task = asyncio.create_task(own(exchange))
        exchange.owned_by(task, lambda: task.done())
        await asyncio.sleep(0)
        exchange.abort()
        await asyncio.wait([task])
        return weakref.ref(exchange)

    gc.disable()
    try:
        assert (await leave())() is None
    finally:
        gc.enable()


async def test_an_owner_that_is_closing_is_not_interrupted() -> None:
    exchange = Exchange()
    task = owned(exchange)
    exchange.seal()
    exchange.abort()
    exchange.release()

    assert task.cancelling() == 0
    task.cancel()
    await asyncio.wait([task])


async def test_a_released_exchange_is_read_on_and_then_let_go() -> None:
    exchange = Exchange()
    task = owned(exchange)
    exchange.release()
    exchange.put(b"late")

    assert task.cancelling() == 0
    await asyncio.wait([task], timeout=2)
    assert task.cancelled()
