"""A store that comes back without its last entries gets them again, and no two writers mix."""

from __future__ import annotations

import msgspec
import pytest

from tests.conftest import Store
from tests.harness.journal import AGES_S, Journal, journal, say
from worker.errors import Fenced
from worker.log import reader
from worker.log.claim import Point
from worker.log.cursor import Cursor
from worker.log.verify import verify
from worker.log.view import Cut, End, Superseded, Text

POINT = msgspec.json.encode(Point("k", "resp_1", 7))


def whole(job: Journal) -> bool:
    return verify(job.log(), ended=True).ok


async def test_what_was_lost_is_written_again_under_the_same_ids(store: Store) -> None:
    async with journal(store) as job:
        writer = await job.writer()
        await say(writer, "a", "b", "c")
        before = job.log()
        job.roll_back(before[:2], job.record())
        await say(writer, "d")
        await writer.seal("completed", ages_s=AGES_S)
        assert job.log()[:4] == before
        assert reader.text_of(store.sync, job.job_id) == "abcd"
        assert whole(job)


async def test_a_lost_claim_is_written_again_too(store: Store) -> None:
    async with journal(store) as job:
        first = await job.writer()
        await say(first, "abandoned")
        lagging, record = job.log(), job.record()
        second = await job.writer("w2")
        await say(second, "kept ")
        job.roll_back(lagging, record)
        await say(second, "too")
        await second.seal("completed", ages_s=AGES_S)
        assert reader.text_of(store.sync, job.job_id) == "kept too"
        assert whole(job)


async def test_the_text_an_attempt_goes_on_from_is_restored(store: Store) -> None:
    async with journal(store) as job:
        first = await job.writer()
        await say(first, "one ")
        first.resumable(POINT)
        lagging, record = job.log(), job.record()
        await say(first, "two ", "three ")
        second = await job.writer("w2")
        await say(second, "four ")
        job.roll_back(lagging, record)
        await say(second, "five")
        await second.seal("completed", ages_s=AGES_S)
        assert reader.text_of(store.sync, job.job_id) == "one two three four five"
        assert whole(job)


async def test_the_fence_never_falls_behind_the_log(store: Store) -> None:
    """The record went back to attempt 1, the log was repaired to attempt 2: the next is 3."""
    async with journal(store) as job:
        await job.writer()
        lagging, record = job.log(), job.record()
        second = await job.writer("w2")
        job.roll_back(lagging, record)
        await say(second, "x")
        assert (await job.claimed("w3")).attempt == 3
        with pytest.raises(Fenced):
            await say(second, "y")


async def test_two_attempts_of_one_number_do_not_mix(store: Store) -> None:
    """The claim of the second was lost, and the third has taken its number."""
    async with journal(store) as job:
        await job.writer("w1")
        lagging, record = job.log(), job.record()
        second = await job.writer("w2")
        await say(second, "never ", "to be ")
        job.roll_back(lagging, record)
        third = await job.writer("w3")
        await say(third, "this ")
        with pytest.raises(Fenced):
            await say(second, "mixed")
        with pytest.raises(Fenced):
            await second.seal("completed", ages_s=AGES_S)
        await say(third, "alone")
        await third.seal("completed", ages_s=AGES_S)
        assert reader.text_of(store.sync, job.job_id) == "this alone"
        assert whole(job)


async def test_a_live_reader_is_told_to_begin_again_when_the_log_was_replaced(
    store: Store,
) -> None:
    async with journal(store) as job:
        await job.writer("w1")
        lagging, record = job.log(), job.record()
        second = await job.writer("w2")
        await say(second, "void ", "void ")
        items = reader.tail(store.sync, job.job_id)
        had = "".join(next(items).text for _ in range(0))
        for item in items:
            had += item.text if isinstance(item, Text) else ""
            if had == "void void ":
                break
        job.roll_back(lagging, record)
        third = await job.writer("w3")
        await say(third, "not ", "the ", "same")
        await third.seal("completed", ages_s=AGES_S)
        told = False
        for item in items:
            told = told or isinstance(item, Superseded)
            if isinstance(item, Cut):
                had = had[: item.offset]
            elif isinstance(item, Text):
                assert item.offset == len(had)
                had += item.text
            elif isinstance(item, End):
                break
        assert (had, told) == ("not the same", True)


async def test_a_reader_ahead_of_a_store_that_fell_back_waits_for_the_repair(store: Store) -> None:
    async with journal(store) as job:
        writer = await job.writer()
        await say(writer, "a", "b", "c")
        job.roll_back(job.log()[:2], job.record())
        items = reader.tail(store.sync, job.job_id, Cursor(1, 3))
        assert next(items).state == "lost"  # type: ignore[union-attr]
        await say(writer, "d")
        await writer.seal("completed", ages_s=AGES_S)
        assert [item.text for item in items if isinstance(item, Text)] == ["d"]


async def test_a_cursor_the_store_has_lost_for_good_is_cut_to_what_there_is(store: Store) -> None:
    async with journal(store, policy="continue") as job:
        await say(await job.writer(), "a", "b", "c")
        job.roll_back(job.log()[:2], job.record())
        second = await job.writer("w2")
        await say(second, "B")
        await second.seal("completed", ages_s=AGES_S)
        had = "abc"
        for item in reader.tail(store.sync, job.job_id, Cursor(1, 3)):
            if isinstance(item, Cut):
                had = had[: item.offset]
            elif isinstance(item, Text):
                assert item.offset == len(had)
                had += item.text
        assert had == "aB"
