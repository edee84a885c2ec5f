"""The group commit: one stream's trouble is its own, and the store's trouble is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
        broken, sound = await asyncio.gather(
            commit.command("SET", "a", "\ud800"),
            commit.command("SET", "b", "1"),
            return_exceptions=True,
        )
        assert isinstance(broken, UnicodeEncodeError)
        assert sound
        assert await commit.command("GET", "b") == b"1"
