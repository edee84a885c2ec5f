"""What one attempt leaves behind when the job stops being its own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from settings.model import Account, Key
from tests.conftest import Store
from tests.harness.journal import CLAIM, SUBMIT
from tests.harness.lines import Line, key
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Stop, Verdict, Work, Yielded
from worker.ledger.spending import Spending
from worker.log import reader
from worker.log.claim import Claim, Point, claim_of
from worker.log.commit import GroupCommit
from worker.log.entries import Tokens
from worker.log.writer import Writer
from worker.outcomes import Outcome
from worker.store.keys import job_keys
from worker.upstream.failures import failure_of_answer
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Resumable, Text, Usage
from worker.upstream.request import Message, Request

JOB = "a1b2c3"
KEYS = job_keys(JOB)
REQUEST = Request(model="m", messages=(Message("user", "?"),))


class Provider:
    """A client whose one stream says `text`, then does what it is told."""

    def __init__(self, then: Callable[[], Coroutine[Any, Any, Finished]]) -> None:
        self._then = then

        self.cancelled: list[str] = []

    async def stream_into(self, _request: object, _key: object, take: Take, **_: object) -> None:
        take([Text("text")])
        take([await self._then()])

    async def cancel(self, _key: object, response_id: str) -> Usage | None:
        self.cancelled.append(response_id)
        return None


class Background(Provider):
    """Its stream is a response that can be taken up, as it says after `before`."""

    def __init__(
        self,
        before: Callable[[], Coroutine[Any, Any, None]],
        then: Callable[[], Coroutine[Any, Any, Finished]],
    ) -> None:
        super().__init__(then)
        self._before = before

    async def stream_into(self, _request: object, _key: object, take: Take, **_: object) -> None:
        await self._before()
        take([Text("text"), Resumable("resp_1", 3)])
        take([await self._then()])

    async def resume_into(self, key: Key, _at: object, _said: str, take: Take) -> None:
        take([Usage(1, 0, 2, 0), await self._then()])


def attempt(store: Store, commit: GroupCommit, provider: Provider, deadline_ms: int = 0) -> Attempt:
    """A job that was submitted and granted, about to be run by worker w1 with key a."""
    fields = ["task", "t", "model", "m", "pool", "p"]
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [deadline_ms, 0, *fields])
    keys = (key("a"), key("b", "a"))
    line = Line(store.sync, {"a": Account(name="a")}, keys)
    line.submit(JOB)
    (lease,) = line.ask().leases
    work = Work(lease=lease, build=lambda: REQUEST, read=lambda: Whole(str))
    return Attempt(line.settings, "w1", commit, provider, work)  # type: ignore[arg-type]


async def run(store: Store, then: Callable[[GroupCommit], Any]) -> Verdict:
    commit = GroupCommit(store.aio())
    try:
        async with asyncio.timeout(10):
            return await attempt(store, commit, Provider(lambda: then(commit))).run()
    finally:
        await commit.close()


async def test_an_attempt_that_fails_after_another_took_over_touches_nothing(store: Store) -> None:
    """Its lease lapsed, another claimed the job, and only then does its provider fail."""

    async def taken_over(commit: GroupCommit) -> Finished:
        await commit.call(CLAIM, [KEYS.log, KEYS.record], [99, "w2", "k", "run"])
        raise failure_of_answer(500, {}, b"")

    verdict = await run(store, taken_over)
    assert isinstance(verdict, Yielded)
    assert store.sync.hget(KEYS.record, "state") == b"running"
    assert store.sync.hget(KEYS.record, "worker") == b"w2"


async def test_an_attempt_that_ended_is_not_kept_until_its_deadline(store: Store) -> None:
    async def done() -> Finished:
        return Finished(Outcome.COMPLETED, None)

    commit = GroupCommit(store.aio())
    running = attempt(store, commit, Provider(done), deadline_ms=3_600_000)
    assert isinstance(await running.run(), Sealed)
    kept = weakref.ref(running)
    del running
    gc.collect()
    await commit.close()
    assert kept() is None


async def _nothing() -> None:
    pass


async def _done() -> Finished:
    return Finished(Outcome.COMPLETED, None)


async def _refused() -> Finished:
    raise failure_of_answer(400, {}, b"")


@pytest.mark.parametrize("stop", [None, Stop.LOST])
@pytest.mark.parametrize(("known", "cancelled"), [(False, ["resp_1"]), (True, [])])
async def test_a_response_that_whoever_took_over_does_not_read_is_stopped_at_the_provider(
    store: Store, stop: Stop | None, known: bool, cancelled: list[str]
) -> None:
    """A worker that hung for longer than its lease: what it asked for is paid for, also when the
    job was begun anew because nobody had heard of its response."""
    commit = GroupCommit(store.aio())

    async def taken_over() -> None:
        await commit.call(CLAIM, [KEYS.log, KEYS.record], [99, "w2", "a", "run"])

    async def failing() -> Finished:
        if known:
            while store.sync.hget(KEYS.record, "resume") is None:
                await asyncio.sleep(0.001)
            await taken_over()
        if stop is None:
            return await _refused()
        running.stop(stop)
        await asyncio.sleep(60)
        raise AssertionError("it was stopped")

    provider = Background(_nothing if known else taken_over, failing)
    running = attempt(store, commit, provider)
    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Yielded)
    await commit.close()

    assert provider.cancelled == cancelled
    resumed = store.sync.hget(KEYS.record, "resume")
    assert (resumed is not None) == known
    assert store.sync.hget(KEYS.record, "worker") == b"w2"


async def test_what_is_read_before_a_lease_was_lost_can_be_taken_up(store: Store) -> None:
    commit = GroupCommit(store.aio())

    async def lost() -> Finished:
        running.stop(Stop.LOST)
        await asyncio.sleep(60)
        raise AssertionError("it was stopped")

    provider = Background(_nothing, lost)
    running = attempt(store, commit, provider)
    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Yielded)
    await commit.close()

    assert provider.cancelled == []
    assert b"resp_1" in bytes(store.sync.hget(KEYS.record, "resume") or b"")  # type: ignore[arg-type]


async def test_a_response_is_paid_for_by_the_key_it_was_asked_with(store: Store) -> None:
    """The worker died before the line knew that only that key can go on with it."""
    commit = GroupCommit(store.aio())
    running = attempt(store, commit, Background(_nothing, _done))
    await commit.call(CLAIM, [KEYS.log, KEYS.record], [0, "w0", "b", "run"])
    point = msgspec.json.encode(Point("b", "resp_1", 3))
    store.sync.hset(KEYS.record, "resume", point)

    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Sealed)
    await commit.close()

    spent = msgspec.json.decode(store.sync.hget(KEYS.record, "spent:2"), type=Spending)  # type: ignore[arg-type]
    assert (spent.key, spent.estimated) == ("b", False)


class Left(Background):
    """Has the response of key b that an earlier attempt left; nobody may ask or read it."""

    def __init__(self, used: Usage | None) -> None:
        super().__init__(_nothing, _done)
        self._used = used

    async def stream_into(self, *_: object, **__: object) -> None:
        raise AssertionError("the provider was asked")

    async def resume_into(self, *_: object) -> None:
        raise AssertionError("the response was read")

    async def cancel(self, key: Key, response_id: str) -> Usage | None:  # type: ignore[override]
        self.cancelled.append(f"{key.alias} {response_id}")
        return self._used


async def left(store: Store, used: Usage | None, record: dict[str, str]) -> tuple[Left, Sealed]:
    """A job whose first worker died behind `text` of a response, and that is only closed."""
    commit = GroupCommit(store.aio())
    running = attempt(store, commit, provider := Left(used))
    reply = await commit.call(CLAIM, [KEYS.log, KEYS.record], [0, "w0", "b", "run"])
    claim = claim_of(reply)
    assert isinstance(claim, Claim)
    writer = Writer(commit, KEYS, claim.attempt, claim.first, buffer_bytes=1 << 20)
    writer.text("text")
    writer.resumable(msgspec.json.encode(Point("b", "resp_1", 3)))
    await writer.flush()
    store.sync.hset(KEYS.record, mapping=record)  # type: ignore[arg-type]

    async with asyncio.timeout(10):
        verdict = await running.run()
    await commit.close()
    assert isinstance(verdict, Sealed)
    return provider, verdict


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        ({"crashes": "2", "crash:1": "w7", "crash:2": "w8"}, Outcome.FAILED),
        ({"deadline_ms": "1"}, Outcome.EXPIRED),
        ({"cancel_ms": "1"}, Outcome.CANCELLED),
        ({"on_interrupt": "fail"}, Outcome.INTERRUPTED),
    ],
)
async def test_a_response_that_nobody_will_read_is_stopped_and_paid_for_once(
    store: Store, record: dict[str, str], outcome: Outcome
) -> None:
    provider, verdict = await left(store, Usage(5, 0, 70, 60), record)

    assert (verdict.outcome, provider.cancelled) == (outcome, ["b resp_1"])
    assert reader.text_of(store.sync, JOB) == "text"
    raw: Any = store.sync.hgetall(KEYS.record)
    booked = [value for name, value in raw.items() if name.startswith(b"spent:")]
    (spent,) = [msgspec.json.decode(value, type=Spending) for value in booked]
    assert (spent.key, spent.estimated, spent.wasted) == ("b", False, outcome)
    assert spent.tokens == Tokens(input=5, cached=0, output=70, reasoning=60)


async def test_a_response_whose_provider_does_not_say_what_it_used_is_estimated(
    store: Store,
) -> None:
    provider, _ = await left(store, None, {"deadline_ms": "1"})

    assert provider.cancelled == ["b resp_1"]
    spent = msgspec.json.decode(store.sync.hget(KEYS.record, "spent:2"), type=Spending)  # type: ignore[arg-type]
    assert (spent.key, spent.estimated, spent.tokens.output) == ("b", True, 1)


async def test_a_response_whose_answer_can_not_be_used_is_stopped(store: Store) -> None:
    """The code of the task fails, and the response goes on without it."""

    async def broken() -> Finished:
        raise ValueError("the code of the task")

    commit = GroupCommit(store.aio())
    running = attempt(store, commit, provider := Background(_nothing, broken))
    async with asyncio.timeout(10):
        assert isinstance(await running.run(), Sealed)
    await commit.close()
    assert provider.cancelled == ["resp_1"]
