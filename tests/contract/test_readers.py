"""A reader is always answered: expired, trimmed, unknown, superseded; never by a silent hole."""

from __future__ import annotations

import math

import pytest

from tests.conftest import Store
from tests.harness.journal import AGES_S, Journal, journal, say
from tests.harness.waiting import wait_until
from worker.errors import UnknownJob
from worker.log import reader
from worker.log.cursor import Cursor, CursorError
from worker.log.follow import LogExpired, Trimmed
from worker.log.view import Attempt, Cut, End, Superseded, Text


async def sealed(job: Journal, *texts: str) -> None:
    writer = await job.writer()
    await say(writer, *texts)
    await writer.seal("completed", ages_s=AGES_S)


def trim(job: Journal, first: str) -> None:
    job.store.sync.execute_command("XTRIM", job.keys.log, "MINID", first)


def drop(job: Journal, *ids: str) -> None:
    job.store.sync.xdel(job.keys.log, *ids)


async def test_a_cursor_before_deleted_entries_is_answered_trimmed(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job, "a", "b", "c")
        trim(job, "1-2")
        for cursor in (Cursor(0, 0), Cursor(1, 0)):
            with pytest.raises(Trimmed, match="--from 1-1") as caught:
                list(reader.tail(store.sync, job.job_id, cursor))
            assert caught.value.answer == "trimmed"


async def test_a_cursor_behind_everything_deleted_reads_on(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job, "a", "b", "c")
        trim(job, "1-2")
        items = reader.tail(store.sync, job.job_id, Cursor(1, 1))
        assert [item.text for item in items if isinstance(item, Text)] == ["b", "c"]


async def test_a_hole_in_the_middle_is_answered_trimmed_by_both_views(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job, "a", "b", "c")
        drop(job, "1-2")
        for raw in (True, False):
            with pytest.raises(Trimmed):
                list(reader.tail(store.sync, job.job_id, raw=raw))


async def test_a_log_trimmed_under_a_live_reader_is_no_silent_hole(store: Store) -> None:
    async with journal(store) as job:
        writer = await job.writer()
        await say(writer, "a")
        items = reader.tail(store.sync, job.job_id)
        wait_until("the text", lambda: isinstance(next(items), Text))
        await say(writer, "b", "c")
        drop(job, "1-2")
        with pytest.raises(Trimmed):
            list(items)


async def test_the_lost_end_of_an_attempt_is_no_silent_hole(store: Store) -> None:
    async with journal(store) as job:
        first = await job.writer()
        await say(first, "a")
        items = reader.tail(store.sync, job.job_id, raw=True)
        wait_until("the text", lambda: isinstance(next(items), Text))
        await say(first, "b")
        await sealed(job, "c")
        drop(job, "1-2")
        with pytest.raises(Trimmed, match="--from 1-2"):
            list(items)


async def test_expired_is_told_apart_from_unknown_as_long_as_the_tombstone_stands(
    store: Store,
) -> None:
    async with journal(store) as job:
        await sealed(job, "a")
        store.sync.delete(job.keys.log)
        with pytest.raises(LogExpired, match="longstream show"):
            list(reader.tail(store.sync, job.job_id))
        store.sync.delete(job.keys.record)
        with pytest.raises(LogExpired, match=r"ended \(completed\)") as caught:
            list(reader.tail(store.sync, job.job_id))
        assert caught.value.answer == "expired"
        store.sync.delete(job.keys.tombstone)
        with pytest.raises(UnknownJob, match="no job") as unknown:
            list(reader.tail(store.sync, job.job_id))
        assert unknown.value.answer == "unknown_job"


async def test_a_job_goes_in_three_steps_and_leaves_nothing(store: Store) -> None:
    async with journal(store) as job:
        writer = await job.writer()
        await say(writer, "a")
        await writer.seal("completed", ages_s=(100, 200, 300))

        def answer() -> str:
            try:
                reader.text_of(store.sync, job.job_id)
            except UnknownJob as error:
                return f"{error.answer} {store.sync.exists(job.keys.record)}"
            return "text"

        left = sorted(store.sync.keys(), key=store.sync.ttl)
        assert [math.ceil(store.sync.pttl(key) / 100_000) for key in left] == [1, 2, 3]
        answers = [answer()]
        for key in left:
            # Its time is over.
            store.sync.expire(key, 0)
            answers.append(answer())
        assert answers == ["text", "expired 1", "expired 0", "unknown_job 0"]
        assert store.sync.keys() == []


async def test_an_id_is_not_used_again_while_its_tombstone_stands(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job, "a")
        store.sync.delete(job.keys.log, job.keys.record)
    async with journal(store):
        assert not store.sync.exists(job.keys.record)
    store.sync.delete(job.keys.tombstone)
    async with journal(store):
        assert store.sync.exists(job.keys.record)


async def test_a_reader_whose_job_vanishes_is_not_left_waiting(store: Store) -> None:
    async with journal(store) as job:
        await say(await job.writer(), "a")
        items = reader.tail(store.sync, job.job_id)
        wait_until("the text", lambda: isinstance(next(items), Text))
        store.sync.delete(job.keys.log, job.keys.record)
        with pytest.raises(UnknownJob):
            list(items)


async def test_a_reader_of_replaced_text_is_told_so_beside_the_cut(store: Store) -> None:
    async with journal(store) as job:
        await say(await job.writer(), "abandoned", " as well")
        await sealed(job, "kept")
        items = list(reader.tail(store.sync, job.job_id, Cursor(1, 1)))
        kinds = [type(item) for item in items]
        assert kinds == [Superseded, Cut, Attempt, Text, End]
        assert items[0] == Superseded(attempt=2, reason="worker lost: w1")


async def test_superseded_moves_no_cursor_so_the_cut_can_not_be_missed(store: Store) -> None:
    async with journal(store) as job:
        await say(await job.writer(), "abandoned")
        await sealed(job, "kept")
        told = next(reader.tail(store.sync, job.job_id, Cursor(1, 1)))
        assert isinstance(told, Superseded)
        assert not hasattr(told, "cursor")


async def test_a_cursor_no_log_of_the_job_can_have_is_refused_before_and_after_its_end(
    store: Store,
) -> None:
    async with journal(store) as job:
        await say(await job.writer(), "a")
        with pytest.raises(CursorError, match="ahead of the log"):
            next(reader.tail(store.sync, job.job_id, Cursor(2, 0)))
        await sealed(job, "b")
        with pytest.raises(CursorError, match="read from 0-0"):
            next(reader.tail(store.sync, job.job_id, Cursor(2, 9)))


async def test_a_reader_that_does_not_wait_does_not_wait_for_redis(store: Store) -> None:
    if store.fake is None:
        pytest.skip("the fake server can be switched off")
    async with journal(store) as job:
        await sealed(job, "a")
        store.fake.connected = False
        with pytest.raises(Exception, match="FakeRedis is emulating a connection error"):
            reader.text_of(store.sync, job.job_id)
        store.fake.connected = True
