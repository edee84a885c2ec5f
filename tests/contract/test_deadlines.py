"""A deadline that passes while the job waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from settings.model import Account
from tests.conftest import Store
from tests.contract.test_cancel import Backend
from tests.contract.test_runner import JOB, KEYS, REQUEST, Left
from tests.harness.lines import KEYS as LINE, POOL, Line
from tests.harness.waiting import wait_until
from worker.admission.line import Lease
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Work
from worker.job.deadlines import expire, overdue
from worker.job.submission import Submission
from worker.job.submitting import submit
from worker.job.terms import Terms
from worker.log.commit import GroupCommit
from worker.messages.message import plain_message
from worker.outcomes import Outcome
from worker.store.keys import DEADLINES


@pytest.fixture
def line(store: Store) -> Line:
    """Every key rests for an hour."""
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit("other")
    line.refuse(line.one(), 429, {"retry-after": "3600"})
    return line


def waits(store: Store, deadline_s: float) -> None:
    job = Submission(
        job_id=JOB,
        task="t",
        model=REQUEST.model,
        pool=POOL,
        label="t",
        message=plain_message("t", JOB, [], {}),
        terms=Terms(deadline_s=deadline_s),
    )
    submit(store.sync, job)


async def closed(store: Store, line: Line) -> Sealed:
    commit = GroupCommit(store.aio())
    work = Work.to_close(Lease(JOB, POOL, 0, ""))
    verdict = await Attempt(line.settings, "w1", commit, Left(None), work).close()  # type: ignore[arg-type]
    await commit.close()
    assert isinstance(verdict, Sealed)
    return verdict


async def test_a_job_is_ended_at_its_deadline_although_every_key_rests(
    store: Store, line: Line
) -> None:
    waits(store, 0.01)
    wait_until("it is overdue", lambda: overdue(store.sync) == [JOB])
    assert overdue(store.sync) == [], "the job was told to two workers"
    verdict = await closed(store, line)
    celery: Any = SimpleNamespace(backend=(backend := Backend()))
    expire(celery, store.sync, JOB, lambda: verdict.outcome)
    assert verdict.outcome is Outcome.EXPIRED
    assert verdict.reason == "its deadline has passed"
    assert not store.sync.exists(DEADLINES)
    assert backend.revoked == [JOB]


def test_what_its_end_left_undone_is_done_when_the_job_is_told_again(
    store: Store, line: Line
) -> None:
    """Who ended it died behind the seal."""
    waits(store, 0.01)
    store.sync.hset(KEYS.record, mapping={"state": "ended", "outcome": "expired"})
    celery: Any = SimpleNamespace(backend=(backend := Backend()))
    expire(celery, store.sync, JOB, lambda: Outcome.EXPIRED)
    assert backend.revoked == [JOB]
    assert not store.sync.exists(DEADLINES)


def test_whoever_waits_for_the_result_is_told(store: Store, line: Line) -> None:
    waits(store, 0.01)
    celery: Any = SimpleNamespace(backend=(backend := Backend()))
    expire(celery, store.sync, JOB, lambda: Outcome.EXPIRED)
    assert backend.revoked == [JOB]


async def test_why_it_waited_stands_beside(store: Store, line: Line) -> None:
    waits(store, 0.001)
    store.sync.hset(KEYS.record, "why", "429: slow down")
    wait_until("it is overdue", lambda: overdue(store.sync) == [JOB])
    assert (
        await closed(store, line)
    ).reason == "its deadline has passed; last time: 429: slow down"


def test_a_job_before_its_deadline_is_left_alone(store: Store, line: Line) -> None:
    waits(store, 3600)
    assert overdue(store.sync) == []


def test_a_worker_that_dies_before_it_has_ended_the_job_leaves_it_to_another(
    store: Store, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.job.deadlines._AGAIN_MS", 1)
    waits(store, 0.001)
    wait_until("it is overdue", lambda: overdue(store.sync) == [JOB])
    wait_until("it is told again", lambda: overdue(store.sync) == [JOB])


def test_a_job_that_runs_is_left_to_its_worker(store: Store) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    waits(store, 0.001)
    line.one()
    closed: list[str] = []
    celery: Any = None
    expire(celery, store.sync, JOB, lambda: closed.append(JOB))  # type: ignore[func-returns-value]
    assert closed == []
    assert store.sync.hget(LINE.held, JOB) is not None
    assert store.sync.exists(DEADLINES)
