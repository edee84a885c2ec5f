"""The group commit: one stream's trouble is its own, and the store's trouble is waited for."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.conftest import Store
from worker.log import commit as commit_module
from worker.log.commit import GroupCommit
from worker.log.lanes import Lane, Lost, Replied, opened
from worker.seeing.meters import Meters
from worker.store.connections import connect_async
from worker.store.scripts import Script

ON = ("asyncio", "engine")

HELLO = Script("return ARGV[1]")


class Saying:
    """A call that makes its command when it leaves."""

    script = HELLO

    def __init__(self, said: str) -> None:
        self.said = said
        self.replies: asyncio.Queue[object] = asyncio.Queue()

    def command(self) -> list[object]:
        return HELLO.command(["k"], [self.said])

    def done(self, reply: object) -> None:
        self.replies.put_nowait(reply)


@pytest_asyncio.fixture
async def commit(store: Store) -> AsyncIterator[GroupCommit]:
    group = GroupCommit(store.aio())
    yield group
    await group.close()


async def test_a_command_that_can_not_be_sent_fails_alone(commit: GroupCommit) -> None:
    async with asyncio.timeout(5):
        results: list[object] = await asyncio.gather(
            commit.command("SET", "a", "\ud800"),
            commit.command("SET", "b", "1"),
            return_exceptions=True,
        )
        assert isinstance(results[0], UnicodeEncodeError)
        assert results[1]
        assert await commit.command("GET", "b") == b"1"


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
async def test_a_store_without_its_replicas_is_waited_for(
    store: Store, commit: GroupCommit
) -> None:
    store.sync.config_set("min-replicas-to-write", 1)
    try:
        waiting = asyncio.create_task(commit.command("SET", "a", "1"))
        await asyncio.wait({waiting}, timeout=0.2)
        assert not waiting.done()
    finally:
        store.sync.config_set("min-replicas-to-write", 0)
    async with asyncio.timeout(5):
        assert await waiting


class Mute:
    """A server that answers nothing about key `a` until it `speaks`."""

    def __init__(self) -> None:
        self.taken, self.speaks = asyncio.Event(), False
        self.connections: list[asyncio.Task[None] | None] = []

    async def __aenter__(self) -> Mute:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.wait([served for served in self.connections if served is not None])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        while data := await reader.read(4096):
            if b"$1\r\na\r\n" in data and not self.speaks:
                self.taken.set()
            else:
                writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()
        await writer.wait_closed()


async def test_closing_lets_go_of_what_was_sent_and_of_what_was_not() -> None:
    async with Mute() as server:
        group = GroupCommit(connect_async(server.url))
        sent = asyncio.create_task(group.command("SET", "a", "1"))
        await server.taken.wait()
        unsent = asyncio.create_task(group.command("SET", "b", "1"))
        await asyncio.sleep(0)
        await group.close()
        async with asyncio.timeout(5):
            await asyncio.wait({sent, unsent})
        assert sent.cancelled()
        assert unsent.cancelled()


async def test_a_batch_without_replies_goes_out_again_on_a_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_module, "_REPLY_S", 0.1)
    async with Mute() as server:
        group = GroupCommit(connect_async(server.url))
        sent = asyncio.create_task(group.command("SET", "a", "1"))
        await server.taken.wait()
        server.speaks = True
        async with asyncio.timeout(5):
            assert await sent
        assert len(server.connections) == 2
        await group.close()


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
async def test_a_script_the_server_forgot_is_loaded_within_the_call(
    store: Store, commit: GroupCommit
) -> None:
    for _ in range(2):
        store.sync.script_flush()
        async with asyncio.timeout(5):
            assert await commit.call(HELLO, ["k"], ["world"]) == b"world"


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
async def test_a_call_holds_what_came_until_it_leaves(store: Store, commit: GroupCommit) -> None:
    """What is sent with `send` asks for its arguments only when it goes out."""
    call = Saying("early")
    commit.send(call)
    call.said += " and late"
    async with asyncio.timeout(5):
        assert await call.replies.get() == b"early and late"


async def test_a_store_that_answers_is_never_taken_for_one_that_does_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a batch is measured or not: what is under way is overdue by its own time.

    The clock moves with the batches alone, two of them to a time-out: a pause of the machine is no
    silence of the store.
    """
    clock = itertools.count(step=0.06)
    moved = SimpleNamespace(now=0.0, monotonic=lambda: moved.now)
    monkeypatch.setattr(commit_module, "time", moved)
    monkeypatch.setattr(commit_module, "_REPLY_S", 0.1)
    meters = Meters()
    group = GroupCommit(store.aio(), meters)
    try:
        until = asyncio.get_running_loop().time() + 0.5
        while asyncio.get_running_loop().time() < until:
            moved.now = next(clock)
            await group.command("PING")
    finally:
        await group.close()

    assert meters.unreachable.values == {}
    assert sum(meters.exchange.of().counts) == sum(meters.batch.of().counts) > 0


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
async def test_no_batch_leaves_beside_another_after_a_loss_in_the_moment_before_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that was about to leave and the try after the loss are one and the same."""
    told: list[str] = []

    async def watched(client: Redis, replied: Replied, lost: Lost) -> Lane:
        lane = await opened(client, lambda replies: (told.append("<"), replied(replies))[1], lost)
        send = lane.send
        monkeypatch.setattr(lane, "send", lambda packed: (told.append(">"), send(packed))[1])
        return lane

    monkeypatch.setattr(commit_module, "opened", watched)
    group = GroupCommit(store.aio())
    async with asyncio.timeout(10):
        await group.command("PING")
        said = [asyncio.create_task(group.command("ECHO", "late"))]
        await asyncio.sleep(0)
        assert group._lane is not None
        group._lane.close(RedisConnectionError("lost"))

        until = asyncio.get_running_loop().time() + 0.2
        while asyncio.get_running_loop().time() < until:
            said.append(asyncio.create_task(group.command("PING")))
            await asyncio.sleep(0)
        await asyncio.gather(*said)
    await group.close()

    assert ">>" not in "".join(told)


async def test_what_nobody_waits_for_any_more_is_not_kept_while_the_store_is_away() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{nobody.getsockname()[1]}/0"
        group = GroupCommit(connect_async(url))
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await group.command("PING")
        async with asyncio.timeout(5):
            while group._pending:
                await asyncio.sleep(0.01)
        await group.close()
