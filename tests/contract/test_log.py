"""The job log on a real and on a fake store: fence, predecessor, resend, seal, views."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conftest import Store
from worker.errors import Fenced, LogGone, UnknownJob
from worker.log import entries, reader
from worker.log.commit import GroupCommit
from worker.log.cursor import Cursor, CursorError
from worker.log.stored import read_stored
from worker.log.view import Attempt, Cut, End, Text
from worker.log.writer import Writer
from worker.store.keys import job_keys
from worker.store.scripts import script

ON = ("engine",)

JOB = "a1b2c3"
KEYS = job_keys(JOB)
CLAIM = script("worker.log", "claim")
SUBMIT = script("worker.log", "submit")
BUFFER = 1 << 20


@pytest_asyncio.fixture
async def commit(store: Store) -> AsyncIterator[GroupCommit]:
    SUBMIT.call(
        store.sync, [KEYS.record, KEYS.tombstone], [0, 0, "task", "t", "model", "m", "pool", "p"]
    )
    group = GroupCommit(store.aio())
    yield group
    await group.close()


async def claim(commit: GroupCommit, lease: int, worker: str = "w1") -> Writer:
    reply = await commit.call(CLAIM, [KEYS.log, KEYS.record], [lease, worker, "k", "run"])
    assert reply[0] == b"claimed"
    return Writer(commit, KEYS, reply[1], reply[2], buffer_bytes=BUFFER)


async def seal(writer: Writer) -> None:
    await writer.seal("completed", ages_s=(100, 200, 300))


def texts(store: Store, start: str = "0-0") -> str:
    """The clean text behind a cursor, cuts applied to what comes after it only."""
    text = ""
    for item in reader.tail(store.sync, JOB, Cursor.parse(start), wait=False):
        if isinstance(item, Text):
            text += item.text
    return text


async def test_deltas_reach_the_log_once_and_in_order(store: Store, commit: GroupCommit) -> None:
    writer = await claim(commit, 1)
    for delta in ("Hä", "llo ", "🌍", "!"):
        writer.text(delta)
        await writer.room()
    await seal(writer)

    items = list(reader.tail(store.sync, JOB))
    assert "".join(item.text for item in items if isinstance(item, Text)) == "Hällo 🌍!"
    end = items[-1]
    assert isinstance(end, End)
    assert (end.outcome, end.length, end.attempts) == ("completed", 8, 1)


async def test_append_from_a_stale_attempt_is_refused(store: Store, commit: GroupCommit) -> None:
    zombie = await claim(commit, 1)
    zombie.text("old")
    await zombie.flush()
    owner = await claim(commit, 2, "w2")
    zombie.text("never seen")
    with pytest.raises(Fenced):
        await zombie.flush()
    with pytest.raises(Fenced):
        await seal(zombie)
    with pytest.raises(Fenced):
        await zombie.hand_back("handed_back", "drain", failure=False)
    owner.text("new")
    await seal(owner)
    assert texts(store) == "new"


async def test_an_append_whose_reply_was_lost_is_not_doubled(
    store: Store, commit: GroupCommit
) -> None:
    writer = await claim(commit, 1)
    writer.text("one")
    await writer.flush()
    await writer._lacking.append(1)  # as after a lost reply: the same entries under the same ids
    assert store.sync.xlen(KEYS.log) == 2


async def test_nothing_said_makes_no_entry(store: Store, commit: GroupCommit) -> None:
    """As between two notes at one place, where the text between them is empty."""
    writer = await claim(commit, 1)
    writer.text("")
    await writer.flush()
    writer.text("")
    writer.note("file_ready", "a")
    await writer.flush()
    assert store.sync.xlen(KEYS.log) == 2


async def test_entries_the_store_lost_are_sent_again_under_their_ids(
    store: Store, commit: GroupCommit
) -> None:
    writer = await claim(commit, 1)
    for delta in ("a", "b", "c"):
        writer.text(delta)
        await writer.flush()
    before = store.sync.xrange(KEYS.log)
    rebuilt = before[:2]  # a replica that took over without the last two entries
    store.sync.delete(KEYS.log)
    for at, fields in rebuilt:
        store.sync.xadd(KEYS.log, fields, id=at)

    writer.text("d")
    await writer.flush()
    after = store.sync.xrange(KEYS.log)
    assert after[:4] == before
    assert texts(store) == "abcd"


async def test_a_deleted_log_is_never_made_anew(store: Store, commit: GroupCommit) -> None:
    writer = await claim(commit, 1)
    store.sync.delete(KEYS.log)
    writer.text("x")
    with pytest.raises(LogGone):
        await writer.flush()
    assert not store.sync.exists(KEYS.log)


async def test_a_claim_under_an_older_lease_is_refused(store: Store, commit: GroupCommit) -> None:
    await claim(commit, 5)
    reply = await commit.call(CLAIM, [KEYS.log, KEYS.record], [4, "w", "k", "run"])
    assert reply == [b"stale"]


async def test_a_repeated_claim_gets_the_same_attempt(store: Store, commit: GroupCommit) -> None:
    args = [7, "w1", "k", "run"]
    first = await commit.call(CLAIM, [KEYS.log, KEYS.record], args)
    again = await commit.call(CLAIM, [KEYS.log, KEYS.record], args)
    assert first == again
    assert store.sync.xlen(KEYS.log) == 1


async def test_a_worker_that_died_is_named_by_the_next_attempt(
    store: Store, commit: GroupCommit
) -> None:
    await claim(commit, 1, "w-dead")
    await claim(commit, 2, "w-next")
    first = [i for i in reader.tail(store.sync, JOB, wait=False) if isinstance(i, Attempt)]
    assert first[-1].reason == "worker lost: w-dead"
    assert store.sync.hget(KEYS.record, "crashes") == b"1"


async def test_a_sealed_job_can_not_be_claimed(store: Store, commit: GroupCommit) -> None:
    await seal(await claim(commit, 1))
    reply = await commit.call(CLAIM, [KEYS.log, KEYS.record], [2, "w", "k", "run"])
    assert reply == [b"ended"]


async def test_nothing_expires_before_the_seal_and_everything_after_it(
    store: Store, commit: GroupCommit
) -> None:
    writer = await claim(commit, 1)
    assert store.sync.ttl(KEYS.log) == store.sync.ttl(KEYS.record) == -1
    await seal(writer)
    assert 0 < store.sync.ttl(KEYS.log) <= 100 < store.sync.ttl(KEYS.record) <= 200
    assert 200 < store.sync.ttl(KEYS.tombstone) <= 300
    assert store.sync.get(KEYS.tombstone) == b"completed"


async def test_a_live_reader_gets_one_cut_and_the_new_text(
    store: Store, commit: GroupCommit
) -> None:
    first = await claim(commit, 1)
    first.text("abandoned")
    await first.flush()
    follower = reader.follow(JOB)
    items = _advance(store, follower)
    assert [item.text for item in items if isinstance(item, Text)] == ["abandoned"]

    second = await claim(commit, 2)
    second.text("kept")
    await seal(second)
    items = _advance(store, follower)
    cuts = [item for item in items if isinstance(item, Cut)]
    assert [cut.offset for cut in cuts] == [0]
    assert [item.text for item in items if isinstance(item, Text)] == ["kept"]


async def test_a_late_reader_never_sees_superseded_text(store: Store, commit: GroupCommit) -> None:
    first = await claim(commit, 1)
    first.text("abandoned")
    await first.flush()
    second = await claim(commit, 2)
    second.text("kept")
    await seal(second)
    items = list(reader.tail(store.sync, JOB))
    assert not any(isinstance(item, Cut) for item in items)
    assert texts(store) == "kept"
    raw = reader.tail(store.sync, JOB, raw=True)
    assert [i.text for i in raw if isinstance(i, Text)] == ["abandoned", "kept"]


async def test_every_cursor_resumes_to_the_same_text(store: Store, commit: GroupCommit) -> None:
    for lease, deltas in ((1, "abc"), (2, "de"), (3, "wxyz")):
        writer = await claim(commit, lease)
        for delta in deltas:
            writer.text(delta)
            await writer.flush()
    await seal(writer)

    for at, _ in store.sync.xrange(KEYS.log):
        had = _text_at(store, Cursor.parse(at))
        for item in reader.tail(store.sync, JOB, Cursor.parse(at)):
            if isinstance(item, Cut):
                had = had[: item.offset]
            if isinstance(item, Text):
                assert item.offset == len(had)
                had += item.text
        assert had == "wxyz"


async def test_a_reader_behind_the_seal_is_told_how_it_ended(
    store: Store, commit: GroupCommit
) -> None:
    await seal(await claim(commit, 1))
    last = store.sync.xrevrange(KEYS.log, count=1)[0][0]
    (end,) = reader.tail(store.sync, JOB, Cursor.parse(last))
    assert isinstance(end, End)
    assert end.outcome == "completed"


async def test_a_cursor_ahead_of_the_log_is_an_error(store: Store, commit: GroupCommit) -> None:
    await claim(commit, 1)
    with pytest.raises(CursorError, match="ahead of the log"):
        next(reader.tail(store.sync, JOB, Cursor(9, 9)))


async def test_an_expired_log_is_an_answer_not_a_silence(store: Store, commit: GroupCommit) -> None:
    await seal(await claim(commit, 1))
    store.sync.delete(KEYS.log)
    with pytest.raises(reader.LogExpired, match="past retention"):
        next(reader.tail(store.sync, JOB))


def test_an_unknown_job_is_named(store: Store) -> None:
    with pytest.raises(UnknownJob, match="no job nope"):
        next(reader.tail(store.sync, "nope"))


async def test_handing_back_keeps_the_job_waiting_with_its_reason(
    store: Store, commit: GroupCommit
) -> None:
    writer = await claim(commit, 1)
    writer.text("part")
    await writer.hand_back("handed_back", "draining", failure=False)
    record = store.sync.hgetall(KEYS.record)
    assert (record[b"state"], record[b"failures"]) == (b"waiting", b"0")
    await claim(commit, 2)
    attempts = [i for i in reader.tail(store.sync, JOB, wait=False) if isinstance(i, Attempt)]
    assert attempts[-1].reason == "draining"
    assert b"crashes" not in store.sync.hgetall(KEYS.record)


async def test_unpaired_surrogates_do_not_stop_a_stream(store: Store, commit: GroupCommit) -> None:
    writer = await claim(commit, 1)
    writer.text("a\ud83d")
    writer.text("ok \ud83d\ude00")
    await seal(writer)
    assert texts(store) == "a\ufffdok 😀"


async def test_notes_stand_where_their_text_ends_however_much_waits(
    store: Store, commit: GroupCommit
) -> None:
    writer = await claim(commit, 1)
    for text, names in (("ab", "12"), ("cd", "3"), ("e", "")):
        writer.text(text)
        for name in names:
            writer.note("part", name)
    assert writer.length == 5
    await seal(writer)

    stored = read_stored(store.sync.execute_command, KEYS.log)
    found = [entries.decode(each.payload) for each in stored]
    noted = [(each.name, each.offset) for each in found if isinstance(each, entries.Note)]
    assert noted == [("1", 2), ("2", 2), ("3", 4)]


async def test_what_can_not_be_stored_ends_its_stream_and_is_not_left_out(
    commit: GroupCommit,
) -> None:
    writer = await claim(commit, 1)
    writer.text("before")
    writer.note("part", "\ud800")
    writer.text("behind")
    with pytest.raises(UnicodeEncodeError):
        await writer.flush()


def _advance(store: Store, steps: reader.Steps) -> list[object]:
    """Drive a reader until it would wait or has ended."""
    items: list[object] = []
    reply = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return items
        if not isinstance(step, tuple):
            items.append(step)
            reply = None
            continue
        command = tuple(part for part in step if part not in ("BLOCK", reader.BLOCK_MS))
        reply = store.sync.execute_command(*command)
        if step[0] == "XREAD" and not reply:
            return items


def _text_at(store: Store, upto: Cursor) -> str:
    """What a raw reader, cutting where it is told, holds at a cursor."""
    had = ""
    for item in reader.tail(store.sync, JOB, raw=True, wait=False):
        if Cursor.parse(item.cursor) > upto:
            break
        if isinstance(item, Attempt):
            had = ""
        if isinstance(item, Text):
            had += item.text
    return had
