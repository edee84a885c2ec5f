"""The group commit: one stream's trouble is its own, and the store's trouble is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conftest import Store
from worker.log.commit import GroupCommit


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
    """A client whose server takes everything and answers nothing."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()

    def pipeline(self, **_: object) -> Mute:
        return self

    def execute_command(self, *_: object) -> None:
        self.taken.set()

    async def execute(self, **_: object) -> list[object]:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def aclose(self) -> None:
        return


async def test_closing_lets_go_of_what_was_sent_and_of_what_was_not() -> None:
    client = Mute()
    group = GroupCommit(client)  # type: ignore[arg-type]
    sent = asyncio.create_task(group.command("SET", "a", "1"))
    await client.taken.wait()
    unsent = asyncio.create_task(group.command("SET", "b", "1"))
    await asyncio.sleep(0)
    await group.close()
    async with asyncio.timeout(5):
        await asyncio.wait({sent, unsent})
    assert sent.cancelled()
    assert unsent.cancelled()
