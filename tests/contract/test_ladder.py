"""The recovery ladder as the claim decides it: what becomes of the text so far."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from tests.conftest import Store
from worker.log import reader
from worker.log.claim import Claim, Point, claim_of
from worker.log.commit import GroupCommit
from worker.log.entries import Mode
from worker.log.stored import aread_stored, clean_text
from worker.log.view import Cut
from worker.log.writer import Writer
from worker.store.keys import job_keys
from worker.store.scripts import script

JOB = "ladder"
KEYS = job_keys(JOB)
CLAIM = script("worker.log", "claim")
SUBMIT = script("worker.log", "submit")
POINT = Point("k", "resp_1", 7)


@pytest_asyncio.fixture
async def commit(store: Store) -> AsyncIterator[GroupCommit]:
    group = GroupCommit(store.aio())
    yield group
    await group.close()


def submit(store: Store, policy: str, deadline_ms: int = 0) -> None:
    fields = ["task", "t", "model", "m", "pool", "p", "on_interrupt", policy]
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [deadline_ms, 0, *fields])


async def claim(commit: GroupCommit, lease: int) -> Claim:
    reply = await commit.call(CLAIM, [KEYS.log, KEYS.record], [lease, f"w{lease}", "k", "run"])
    claimed = claim_of(reply)
    assert isinstance(claimed, Claim)
    return claimed


def writer(commit: GroupCommit, claimed: Claim, said: str = "") -> Writer:
    return Writer(commit, KEYS, claimed.attempt, claimed.first, buffer_bytes=1 << 20, said=said)


async def interrupted(commit: GroupCommit, text: str, point: Point | None = None) -> None:
    """A first attempt that wrote this and died."""
    first = writer(commit, await claim(commit, 1))
    if text:
        first.text(text)
    if point is not None:
        first.resumable(msgspec.json.encode(point))
    await first.flush()


@pytest.mark.parametrize(
    ("policy", "text", "point", "mode", "offset"),
    [
        ("auto", "häf", None, Mode.RESTART, 0),
        ("auto", "häf", POINT, Mode.REATTACH, 3),
        ("auto", "", POINT, Mode.REATTACH, 0),
        ("restart", "häf", POINT, Mode.RESTART, 0),
        ("continue", "häf 🌍", None, Mode.CONTINUE, 5),
        ("continue", "", None, Mode.RESTART, 0),
        ("fail", "häf", None, Mode.CLOSE, 3),
        ("fail", "häf", POINT, Mode.CLOSE, 3),
        ("fail", "", None, Mode.RESTART, 0),
    ],
)
async def test_the_policy_and_the_text_decide_what_the_next_attempt_keeps(
    store: Store,
    commit: GroupCommit,
    policy: str,
    text: str,
    point: Point | None,
    mode: Mode,
    offset: int,
) -> None:
    submit(store, policy)
    await interrupted(commit, text, point)
    second = await claim(commit, 2)
    assert (second.mode, second.offset) == (mode, offset)
    assert second.point == (point if mode in (Mode.REATTACH, Mode.CLOSE) else None)
    kept = text if offset else ""
    stored = await aread_stored(commit.command, KEYS.log, second.base)
    assert (clean_text(stored) if offset else "") == kept
    assert reader.text_of(store.sync, JOB) == kept


async def test_a_reattached_stream_shows_no_cut(store: Store, commit: GroupCommit) -> None:
    submit(store, "auto")
    await interrupted(commit, "one ", POINT)
    second = writer(commit, await claim(commit, 2), "one ")
    second.text("two")
    await second.seal("completed", ages_s=(9, 9, 9))
    items = list(reader.tail(store.sync, JOB))
    assert not [item for item in items if isinstance(item, Cut)]
    assert reader.text_of(store.sync, JOB) == "one two"


async def test_a_response_is_not_taken_up_behind_text_that_is_lost(
    store: Store, commit: GroupCommit
) -> None:
    """The log was deleted; what comes behind the point would be sealed as the whole answer."""
    submit(store, "auto")
    await interrupted(commit, "one ", POINT)
    store.sync.delete(KEYS.log)
    second = await claim(commit, 2)
    assert (second.mode, second.point, second.left) == (Mode.RESTART, None, {1: POINT})


async def test_the_seal_of_a_continued_answer_covers_all_of_it(
    store: Store, commit: GroupCommit
) -> None:
    submit(store, "continue")
    await interrupted(commit, "one ")
    second = writer(commit, await claim(commit, 2), "one ")
    second.text("two")
    await second.seal("completed", ages_s=(9, 9, 9))

    submit_again = "whole"
    whole = job_keys(submit_again)
    SUBMIT.call(
        store.sync, [whole.record, whole.tombstone], [0, 0, "task", "t", "model", "m", "pool", "p"]
    )
    reply = await commit.call(CLAIM, [whole.log, whole.record], [1, "w", "k", "run"])
    only = Writer(commit, whole, reply[1], reply[2], buffer_bytes=1 << 20)
    only.text("one two")
    await only.seal("completed", ages_s=(9, 9, 9))

    ends = [list(reader.tail(store.sync, job))[-1] for job in (JOB, submit_again)]
    assert ends[0].digest == ends[1].digest  # type: ignore[union-attr]
    assert ends[0].length == ends[1].length == 7  # type: ignore[union-attr]


async def test_the_point_is_stored_in_the_same_step_as_its_text(
    store: Store, commit: GroupCommit
) -> None:
    submit(store, "auto")
    first = writer(commit, await claim(commit, 1))
    for number, text in enumerate(("a", "b", "c")):
        first.text(text)
        first.resumable(msgspec.json.encode(Point("k", "r", number)))
        await first.flush()
        stored = store.sync.hget(KEYS.record, "resume")
        assert isinstance(stored, bytes)
        assert msgspec.json.decode(stored, type=Point).sequence == number
        assert len(reader.text_of(store.sync, JOB)) == number + 1


async def test_a_zombie_can_not_move_the_point(store: Store, commit: GroupCommit) -> None:
    submit(store, "auto")
    zombie = writer(commit, await claim(commit, 1))
    zombie.text("a")
    zombie.resumable(msgspec.json.encode(POINT))
    await zombie.flush()
    await claim(commit, 2)
    zombie.text("b")
    zombie.resumable(msgspec.json.encode(Point("k", "r", 99)))
    with pytest.raises(Exception, match="attempt 2 owns the job"):
        await zombie.flush()
    stored = store.sync.hget(KEYS.record, "resume")
    assert isinstance(stored, bytes)
    assert msgspec.json.decode(stored, type=Point) == POINT


async def test_a_restart_forgets_the_response(store: Store, commit: GroupCommit) -> None:
    submit(store, "auto")
    first = writer(commit, await claim(commit, 1))
    first.text("a")
    first.resumable(msgspec.json.encode(POINT))
    await first.hand_back("handed_back", "gone", failure=False, forget=True)
    assert (await claim(commit, 2)).mode is Mode.RESTART
    assert store.sync.hget(KEYS.record, "resume") is None


async def test_the_deadline_is_counted_down_on_the_servers_clock(
    store: Store, commit: GroupCommit
) -> None:
    submit(store, "auto", deadline_ms=60_000)
    left = (await claim(commit, 1)).deadline_ms
    assert left is not None
    assert 50_000 < left <= 60_000


async def test_the_workers_that_died_are_told_by_name(store: Store, commit: GroupCommit) -> None:
    submit(store, "auto")
    for lease in (1, 2, 3):
        claimed = await claim(commit, lease)
    assert claimed.lost == ("w1", "w2")
