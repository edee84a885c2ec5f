"""A response that goes on at the provider and that no attempt takes up: it is stopped there, and
what it used is booked once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from settings.model import Key
from tests.conftest import Store
from tests.contract.test_runner import JOB, KEYS, Background, attempt
from tests.harness.journal import CLAIM
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Stop, Yielded
from worker.ledger.spending import WORKER_LOST, Spending
from worker.log import reader
from worker.log.claim import Claim, Point, claim_of
from worker.log.commit import GroupCommit
from worker.log.entries import Tokens
from worker.log.writer import Writer
from worker.outcomes import Outcome
from worker.upstream.failures import failure_of_answer
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Text, Usage

LEFT = Point("b", "resp_0", 7)
USED = Usage(5, 0, 70, 60)


async def _nothing() -> None:
    pass


async def _done() -> Finished:
    return Finished(Outcome.COMPLETED, None)


class Anew(Background):
    """Answers what it is asked; the response of key b that an earlier attempt left goes on."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__(_nothing, _done)
        self.refusals = refusals
        self.asked_behind = 0

    async def stream_into(self, _request: object, _key: object, take: Take, **_: object) -> None:
        self.asked_behind = len(self.cancelled)
        take([Text("whole"), Usage(1, 0, 2, 0), await _done()])

    async def cancel(self, key: Key, response_id: str) -> Usage | None:
        self.cancelled.append(f"{key.alias} {response_id}")
        if len(self.cancelled) <= self.refusals:
            raise failure_of_answer(503, {}, b"")
        return USED


async def died(store: Store, commit: GroupCommit, lease: int, point: Point | None = LEFT) -> None:
    """An attempt that wrote `text`, and whose worker died."""
    claim = claim_of(
        await commit.call(CLAIM, [KEYS.log, KEYS.record], [lease, f"w{lease}", "b", "run"])
    )
    assert isinstance(claim, Claim)
    writer = Writer(commit, KEYS, claim.attempt, claim.first, buffer_bytes=1 << 20)
    writer.text("text")
    if point is not None:
        writer.resumable(msgspec.json.encode(point))
    await writer.flush()


def spent(store: Store) -> dict[int, Spending]:
    raw: Any = store.sync.hgetall(KEYS.record)
    found = [value for name, value in raw.items() if name.startswith(b"spent:")]
    each = [msgspec.json.decode(value, type=Spending) for value in found]
    return {spending.attempt: spending for spending in each}


def prepared(store: Store, commit: GroupCommit, provider: Background, policy: str) -> Attempt:
    running = attempt(store, commit, provider)
    # The attempts before it had older leases.
    store.sync.hset(KEYS.record, "on_interrupt", policy)
    return running


async def finished(running: Attempt) -> None:
    async with asyncio.timeout(10):
        verdict = await running.run()
    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("policy", "text", "wasted"),
    [("restart", "whole", WORKER_LOST), ("continue", "textwhole", "")],
)
async def test_a_response_that_the_policy_does_not_take_up_is_stopped_and_paid_for_once(
    store: Store, policy: str, text: str, wasted: str
) -> None:
    commit = GroupCommit(store.aio())
    running = prepared(store, commit, provider := Anew(), policy)
    await died(store, commit, 0)
    await finished(running)
    await commit.close()

    assert provider.cancelled == ["b resp_0"]
    assert provider.asked_behind == 1
    assert reader.text_of(store.sync, JOB) == text
    old = spent(store)[1]
    assert (old.key, old.estimated, old.wasted) == ("b", False, wasted)
    assert old.tokens == Tokens(input=5, cached=0, output=70, reasoning=60)
    assert spent(store)[2].tokens == Tokens(input=1, output=2)
    assert not store.sync.hexists(KEYS.record, "left")


async def test_who_dies_before_it_stops_a_response_leaves_that_to_the_next(store: Store) -> None:
    """The response belongs to the first attempt; the second asked for one of its own."""
    commit = GroupCommit(store.aio())
    running = prepared(store, commit, provider := Anew(), "restart")
    await died(store, commit, -1)
    await died(store, commit, 0, None)
    await finished(running)
    await commit.close()

    assert provider.cancelled == ["b resp_0"]
    assert spent(store)[1].tokens.output == 70
    assert (spent(store)[2].estimated, spent(store)[2].tokens.output) == (True, 1)


async def test_a_response_whose_text_was_lost_with_the_log_is_stopped_as_well(
    store: Store,
) -> None:
    commit = GroupCommit(store.aio())
    running = prepared(store, commit, provider := Anew(), "auto")
    await died(store, commit, 0)
    store.sync.delete(KEYS.log)
    await finished(running)
    await commit.close()

    assert provider.cancelled == ["b resp_0"]
    assert (spent(store)[1].key, spent(store)[1].tokens.output) == ("b", 70)
    assert reader.text_of(store.sync, JOB) == "whole"


async def test_a_provider_that_is_overloaded_is_asked_to_stop_once_more(store: Store) -> None:
    commit = GroupCommit(store.aio())
    running = prepared(store, commit, provider := Anew(refusals=1), "restart")
    await died(store, commit, 0)
    await finished(running)
    await commit.close()

    assert provider.cancelled == ["b resp_0"] * 2
    assert not spent(store)[1].estimated


async def drained(store: Store, policy: str) -> tuple[Background, Attempt]:
    """An attempt in the middle of its response, told that the worker shuts down."""
    commit = GroupCommit(store.aio())

    async def stopping() -> Finished:
        assert running.resumable == (policy == "auto")
        running.stop(Stop.DRAIN)
        await asyncio.sleep(60)
        raise AssertionError("it was stopped")

    running = prepared(store, commit, provider := Background(_nothing, stopping), policy)
    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Yielded)
    await commit.close()
    return provider, running


async def test_a_worker_that_shuts_down_stops_what_nobody_takes_up(store: Store) -> None:
    provider, _ = await drained(store, "restart")
    assert provider.cancelled == ["resp_1"]
    assert not store.sync.hexists(KEYS.record, "resume")
    assert spent(store)[1].wasted == "drained"


async def test_a_worker_that_shuts_down_leaves_alone_what_is_taken_up(store: Store) -> None:
    provider, _ = await drained(store, "auto")
    assert provider.cancelled == []
    assert store.sync.hexists(KEYS.record, "resume")
    assert spent(store) == {}


async def test_a_response_that_was_to_be_taken_up_by_a_stopping_worker_is_not_paid_for_twice(
    store: Store,
) -> None:
    """It was told to stop between its claim and its stream: the next one takes the response up."""
    commit = GroupCommit(store.aio())
    running = attempt(store, commit, provider := Background(_nothing, _done))
    await died(store, commit, 0)
    running.stop(Stop.DRAIN)
    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Yielded)
    await commit.close()

    assert provider.cancelled == []
    assert spent(store) == {}
    assert store.sync.hexists(KEYS.record, "resume")
