"""The store loses the line of a pool, or part of it, and keeps the records: an operator who deletes
keys, an eviction, a shard that fails over without its last writes."""

from __future__ import annotations

import pytest
import redis
from msgspec.structs import replace

from settings.model import Account
from tests.conftest import Store
from tests.contract.test_feeder import feeder
from tests.contract.test_runner import JOB, KEYS as RECORD, Provider, attempt
from tests.harness.journal import journal
from tests.harness.lines import KEYS, POOL, Line
from worker.admission import line as calls
from worker.admission.line import Held
from worker.attempt.work import Yielded
from worker.job.submission import Submission
from worker.job.submitting import relist, submit, sweep
from worker.log.commit import GroupCommit
from worker.messages.message import plain_message
from worker.store.keys import SUBMITTING, job_keys
from worker.upstream.happenings import Finished


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync, {"a": Account(name="a")})


def submitted(store: Store, *jobs: str, state: str = "waiting") -> None:
    for job in jobs:
        message = plain_message("t", job, [], {})
        submit(
            store.sync,
            Submission(job_id=job, task="t", model="m", pool=POOL, label="t", message=message),
        )
        store.sync.hset(job_keys(job).record, "state", state)


def beat(line: Line, *held: Held) -> calls.Beat:
    call = calls.renew(
        POOL, "w1", held, slots=9, lease_ms=60_000, alive_ms=60_000, epoch=line.epoch
    )
    return calls.beat(held, calls.run(line.client, call))


def test_jobs_that_have_not_ended_enter_the_line_again_but_those_that_run(
    line: Line, store: Store
) -> None:
    """Also those whose workers died while it was lost."""
    feeding = feeder(replace(line.settings, redis_url="unix:///nowhere"))
    feeding._ask(store.sync)
    line.epoch = feeding._epochs[POOL]
    submitted(store, "runs", state="running")
    (lease,) = line.ask("w1").leases
    submitted(store, "orphan", state="running")
    submitted(store, "waits")
    submitted(store, "ended", state="ended")
    store.sync.delete(*KEYS.all())
    assert beat(line, Held(lease, "a")).adopted == (lease,)

    feeding._ask(store.sync)
    assert store.sync.zcard(SUBMITTING) == 3
    assert set(sweep(store.sync, 0).entered) == {"orphan", "waits"}
    assert set(line.grant()) == {"orphan", "waits"}
    assert line.settle(lease)


def test_a_worker_that_could_not_list_them_does_so_with_its_next_grant(
    line: Line, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was granted meanwhile is handed over all the same."""
    handed: list[str] = []
    settings = replace(line.settings, redis_url="unix:///nowhere")
    feeding = feeder(settings, publish=lambda _, lease: handed.append(lease.job_id))
    feeding._ask(store.sync)
    submitted(store, "waits")
    store.sync.delete(*KEYS.all())
    submitted(store, "new")

    def away(*_: object) -> int:
        raise redis.ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr("worker.steps.feeder.relist", away)
        with pytest.raises(redis.ConnectionError):
            feeding._ask(store.sync)
    assert handed == ["new"]
    feeding._ask(store.sync)
    assert "waits" in sweep(store.sync, 0).entered


def test_a_long_list_is_worked_off_piece_by_piece(
    line: Line, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat waits for it."""
    monkeypatch.setattr("worker.job.submitting._PAGE", 2)
    submitted(store, "a", "b", "c")
    store.sync.delete(*KEYS.all())
    assert relist(store.sync, POOL) == 3
    first = sweep(store.sync, 0)
    assert (len(first.entered), first.more) == (2, True)
    rest = sweep(store.sync, 0)
    assert (len(rest.entered), rest.more) == (1, False)
    assert len(line.grant()) == 3


async def test_a_line_that_had_to_count_anew_loses_no_job(store: Store) -> None:
    """Its leases have lower numbers than the last one that the job's record knows."""

    async def never() -> Finished:
        raise AssertionError("the provider was asked")

    commit = GroupCommit(store.aio())
    running = attempt(store, commit, Provider(never))
    store.sync.hset(RECORD.record, "lease", 57)
    assert isinstance(await running.run(), Yielded)
    await commit.close()
    (lease,) = Line(store.sync, {"a": Account(name="a")}).ask().leases
    assert lease.job_id == JOB
    assert lease.number > 57


def test_what_lacks_its_other_half_stops_nobody_else(line: Line, store: Store) -> None:
    store.sync.zadd(KEYS.normal, {"no ticket": -1})
    store.sync.zadd(KEYS.delayed, {"no ticket either": 1})
    store.sync.zadd(KEYS.leases, {"not held": 1})
    line.submit("j")
    answer = line.ask()
    assert [lease.job_id for lease in answer.leases] == ["j"]
    assert answer.reclaimed == ()
    assert not store.sync.exists(KEYS.normal, KEYS.delayed)
    assert store.sync.zcard(KEYS.leases) == 1


def test_a_lease_of_the_same_number_is_not_that_of_another_worker(line: Line, store: Store) -> None:
    line.submit("j")
    (old,) = line.ask("w1").leases
    store.sync.delete(KEYS.counter, KEYS.held, KEYS.leases, KEYS.tickets)
    line.submit("j")
    assert line.ask("w2").leases == (old,)
    assert beat(line, Held(old, "a")).lost == (old,)


async def test_a_claim_of_the_same_lease_by_another_worker_is_no_repetition(store: Store) -> None:
    async with journal(store) as job:
        first = await job.claimed("w1")
        job._lease -= 1
        assert (await job.claimed("w1")).attempt == first.attempt
        job._lease -= 1
        second = await job.claimed("w2")
        assert (second.attempt, second.lost) == (first.attempt + 1, ("w1",))
