"""A store that refuses: the job neither ends nor counts a crash, and goes on when it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio

from tests.conftest import Store
from tests.contract.test_runner import JOB, KEYS, Provider, attempt
from tests.harness.lines import KEYS as LINE
from tests.harness.waiting import wait_until
from worker.attempt.work import Sealed, Yielded
from worker.errors import StoreRefused
from worker.job.records import parse_record
from worker.log.commit import GroupCommit
from worker.outcomes import Outcome
from worker.upstream.happenings import Finished

pytestmark = pytest.mark.parametrize("store", ["valkey"], indirect=True)


@pytest_asyncio.fixture
async def commit(store: Store) -> AsyncIterator[GroupCommit]:
    group = GroupCommit(store.aio())
    yield group
    await group.close()


async def done() -> Finished:
    return Finished(Outcome.COMPLETED, None)


@contextmanager
def forbidden(store: Store, *rules: str) -> Iterator[None]:
    """What the rules take away from the user that everybody is."""
    store.sync.execute_command("ACL", "SETUSER", "default", *(f"-{rule}" for rule in rules))
    try:
        yield
    finally:
        store.sync.execute_command("ACL", "SETUSER", "default", *(f"+{rule}" for rule in rules))


def crashes(store: Store) -> int:
    raw: dict[bytes, bytes] = store.sync.hgetall(KEYS.record)  # type: ignore[assignment]
    record = parse_record(JOB, raw)
    assert record is not None
    assert record.outcome == ""
    return record.crashes


async def test_a_worker_that_is_shut_out_waits_until_it_is_let_in(
    store: Store, commit: GroupCommit, capsys: pytest.CaptureFixture[str]
) -> None:
    shut_out = asyncio.Event()

    async def until_shut_out() -> Finished:
        await shut_out.wait()
        return await done()

    running = asyncio.create_task(attempt(store, commit, Provider(until_shut_out)).run())
    with forbidden(store, "xadd"):
        shut_out.set()
        await asyncio.wait({running}, timeout=0.3)
        assert not running.done()
    async with asyncio.timeout(10):
        verdict = await running
    assert isinstance(verdict, Sealed)
    assert verdict.result == "text"
    said = capsys.readouterr().out
    assert "store.forbids" in said
    assert "ACL SETUSER" in said


async def test_a_job_whose_log_is_none_waits_and_is_not_blamed(
    store: Store, commit: GroupCommit
) -> None:
    """However often it is tried; mended, it runs as if nothing had been."""
    running = attempt(store, commit, Provider(done))
    store.sync.set(KEYS.log, "in the way")
    for times in range(3):
        assert isinstance(await running.run(), Yielded)
        assert crashes(store) == 0
        wait_ms = store.sync.zscore(LINE.delayed, JOB)
        assert wait_ms is not None, times
        store.sync.zadd(LINE.delayed, {JOB: 0})
        running = attempt(store, commit, Provider(done))
    store.sync.delete(KEYS.log)
    verdict = await running.run()
    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, store.sync.hget(KEYS.record, "attempt")) == ("completed", b"1")


async def test_a_log_that_is_spoiled_in_mid_stream_ends_and_blames_nothing(
    store: Store, commit: GroupCommit
) -> None:
    async def spoil() -> Finished:
        wait_until("the text is stored", lambda: store.sync.xlen(KEYS.log) > 1)
        store.sync.delete(KEYS.log)
        store.sync.set(KEYS.log, "in the way")
        return await done()

    verdict = await attempt(
        store, commit, Provider(lambda: asyncio.to_thread(asyncio.run, spoil()))
    ).run()
    assert isinstance(verdict, Yielded)
    assert "WRONGTYPE" in verdict.reason
    assert store.sync.hget(KEYS.record, "state") == b"waiting"
    assert b"WRONGTYPE" in (store.sync.hget(KEYS.record, "why") or b"")
    store.sync.delete(KEYS.log)
    store.sync.zadd(LINE.delayed, {JOB: 0})
    assert isinstance(await attempt(store, commit, Provider(done)).run(), Sealed)
    assert store.sync.hget(KEYS.record, "crashes") is None


async def test_a_deleted_log_is_no_crash_either(store: Store, commit: GroupCommit) -> None:
    async def delete() -> Finished:
        wait_until("the text is stored", lambda: store.sync.xlen(KEYS.log) > 1)
        store.sync.delete(KEYS.log)
        return await done()

    verdict = await attempt(
        store, commit, Provider(lambda: asyncio.to_thread(asyncio.run, delete()))
    ).run()
    assert isinstance(verdict, Yielded)
    assert crashes(store) == 0
    assert store.sync.zscore(LINE.delayed, JOB) is not None


async def test_a_record_that_is_none_lets_the_job_wait(store: Store, commit: GroupCommit) -> None:
    running = attempt(store, commit, Provider(done))
    store.sync.delete(KEYS.record)
    store.sync.set(KEYS.record, "in the way")
    assert isinstance(await running.run(), Yielded)
    assert store.sync.zscore(LINE.delayed, JOB) is not None


async def test_what_the_store_will_never_do_is_raised_in_words(commit: GroupCommit) -> None:
    await commit.command("SET", "text", "x")
    with pytest.raises(StoreRefused, match="WRONGTYPE"):
        await commit.command("LPUSH", "text", "y")
