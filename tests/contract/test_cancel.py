"""Cancelling a job, whoever has it or had it."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from settings.model import Account
from tests.conftest import Store
from tests.contract.test_runner import JOB, Left, Provider, attempt
from tests.harness.journal import journal, say
from tests.harness.lines import KEYS, POOL, Line
from tests.harness.waiting import wait_until
from worker.admission.line import Lease, renew, run, settle
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Work
from worker.engine import Engine
from worker.job.cancel import Cancelled, cancel, finish, withdraw_and_seal
from worker.job.submitting import Found, sweep
from worker.log import reader
from worker.log.claim import Point
from worker.log.commit import GroupCommit
from worker.messages.message import plain_message
from worker.outcomes import Outcome
from worker.seeing.fleet import look
from worker.store.keys import SUBMITTING, inbox_key
from worker.upstream.happenings import Finished, Usage


class Backend:
    """Notes what Celery is told."""

    def __init__(self) -> None:
        self.revoked: list[str] = []

    def mark_as_failure(self, task_id: str, *_: Any, **__: Any) -> None:
        self.revoked.append(task_id)


async def test_a_job_whose_worker_died_is_sealed_while_it_waits_for_another(store: Store) -> None:
    """Its record says that it runs, and nobody will ever run it once it is out of the line."""
    line = Line(store.sync, {"a": Account(name="a")})
    async with journal(store) as job:
        message = plain_message("t", job.job_id, [], {}).dump()
        store.sync.hset(job.keys.record, "message", message)
        await say(await job.writer(), "so far")
        line.submit(job.job_id)
        celery: Any = SimpleNamespace(backend=(backend := Backend()))

        assert cancel(celery, store.sync, line.settings, job.job_id) is Cancelled.DONE

        assert job.record()[b"state"] == b"ended"
        assert reader.text_of(store.sync, job.job_id) == "so far"
        assert backend.revoked == [job.job_id]


async def test_a_job_between_two_attempts_is_cancelled_at_once_and_keeps_its_text(
    store: Store,
) -> None:
    """It waits for its next try, with nobody to tell; and cancelling it twice is fine."""
    line = Line(store.sync, {"a": Account(name="a")})
    async with journal(store) as job:
        message = plain_message("t", job.job_id, [], {}).dump()
        store.sync.hset(job.keys.record, "message", message)
        line.submit(job.job_id)
        lease = line.one()
        writer = await job.writer()
        await say(writer, "so far")
        await writer.hand_back("handed_back", "the provider is ill", failure=True)
        run(store.sync, settle(lease, back=True, wait_ms=60_000))
        celery: Any = SimpleNamespace(backend=(backend := Backend()))

        assert cancel(celery, store.sync, line.settings, job.job_id) is Cancelled.DONE
        assert cancel(celery, store.sync, line.settings, job.job_id) is Cancelled.ENDED

        assert job.record()[b"outcome"] == b"cancelled"
        assert reader.text_of(store.sync, job.job_id) == "so far"
        # Once, however often it is asked for.
        (pool,) = look(store.sync, line.settings).pools
        assert pool.cancelled == 1
        assert backend.revoked == [job.job_id]
        assert line.grant() == []


async def test_a_job_cancelled_between_its_grant_and_its_claim_asks_nobody(store: Store) -> None:
    commit = GroupCommit(store.aio())
    celery: Any = SimpleNamespace(backend=Backend())

    async def never() -> Finished:
        raise AssertionError("the provider was asked")

    running = attempt(store, commit, Provider(never))
    settings = Line(store.sync, {"a": Account(name="a")}).settings
    assert cancel(celery, store.sync, settings, JOB) is Cancelled.STOPPING
    verdict = await running.run()
    await commit.close()
    assert isinstance(verdict, Sealed)
    assert verdict.outcome == "cancelled"
    assert reader.text_of(store.sync, JOB) == ""


async def handed_back(store: Store) -> tuple[Line, Any]:
    """A job whose worker handed it back while its response goes on; it waits for long."""
    line = Line(store.sync, {"a": Account(name="a")})
    async with journal(store, JOB) as job:
        message = plain_message("t", JOB, [], {}).dump()
        store.sync.hset(job.keys.record, "message", message)
        line.submit(JOB)
        lease = line.one()
        writer = await job.writer()
        writer.resumable(msgspec.json.encode(Point("a", "resp_1", 3)))
        await say(writer, "so far")
        await writer.hand_back("handed_back", "the worker is shutting down", failure=False)
        run(store.sync, settle(lease, back=True, wait_ms=60_000, sticky="a"))
    return line, SimpleNamespace(backend=Backend())


def beat(store: Store, worker: str, *, slots: int = 1, alive_ms: int = 60_000) -> None:
    run(store.sync, renew(POOL, worker, [], slots=slots, lease_ms=1, alive_ms=alive_ms))


def heard(store: Store, worker: str) -> list[bytes]:
    found: Any = store.sync.lrange(inbox_key(POOL, worker), 0, -1)
    return found


async def test_a_job_that_waits_while_its_response_goes_on_is_left_to_a_worker(
    store: Store,
) -> None:
    """To the one that was heard of last, of those that take anything; nobody waits for it."""
    line, celery = await handed_back(store)
    beat(store, "lately", alive_ms=70_000)
    beat(store, "stopping", slots=0, alive_ms=80_000)

    assert cancel(celery, store.sync, line.settings, JOB) is Cancelled.STOPPING
    assert heard(store, "lately") == [f"close {JOB}".encode()]
    assert not heard(store, "stopping")
    assert store.sync.exists(SUBMITTING)

    commit = GroupCommit(store.aio())
    provider = Left(Usage(5, 0, 70, 60))
    work = Work.to_close(Lease(JOB, POOL, 0, ""))
    closing = Attempt(line.settings, "lately", commit, provider, work)  # type: ignore[arg-type]
    verdict = await closing.close()
    await commit.close()
    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, provider.cancelled) == ("cancelled", ["a resp_1"])
    assert reader.text_of(store.sync, JOB) == "so far"

    assert finish(celery, store.sync, JOB, lambda: Outcome.CANCELLED)
    assert celery.backend.revoked == [JOB]
    assert not store.sync.exists(SUBMITTING)


async def test_a_job_is_cancelled_at_once_when_no_worker_lives_to_stop_its_response(
    store: Store,
) -> None:
    line, celery = await handed_back(store)
    store.sync.delete(KEYS.workers)
    assert cancel(celery, store.sync, line.settings, JOB) is Cancelled.DONE
    assert celery.backend.revoked == [JOB]
    assert line.grant() == []


async def test_a_cancel_that_its_worker_never_heard_of_is_found_by_another(store: Store) -> None:
    line, celery = await handed_back(store)
    assert cancel(celery, store.sync, line.settings, JOB) is Cancelled.STOPPING
    assert sweep(store.sync, 60_000) == Found((), ())
    assert sweep(store.sync, 0) == sweep(store.sync, 0) == Found((), (JOB,))
    assert finish(
        celery, store.sync, JOB, lambda: withdraw_and_seal(store.sync, line.settings, JOB)
    )
    assert sweep(store.sync, 0) == Found((), ())


async def test_a_job_is_not_lost_with_who_cancelled_it_when_its_worker_had_died_before(
    store: Store,
) -> None:
    """It is out of the line, its record says that it runs, and the canceller died behind that."""
    line = Line(store.sync, {"a": Account(name="a")})
    async with journal(store) as job:
        message = plain_message("t", job.job_id, [], {}).dump()
        store.sync.hset(job.keys.record, "message", message)
        await say(await job.writer(), "so far")
        store.sync.hset(job.keys.record, "cancel_ms", 1)
        store.sync.zadd(SUBMITTING, {job.job_id: 1})
        celery: Any = SimpleNamespace(backend=Backend())

        assert sweep(store.sync, 0).cancelled == (job.job_id,)
        assert cancel(celery, store.sync, line.settings, job.job_id) is Cancelled.DONE
        assert job.record()[b"outcome"] == b"cancelled"


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_worker_that_ends_leaves_a_job_it_was_closing_to_another(store: Store) -> None:
    """Whatever a provider takes to stop a response."""
    line = Line(store.sync, {"a": Account(name="a")})
    engine = Engine(replace(line.settings, redis_url=store.url), "w1")
    engine.start()
    closed: list[object] = []

    async def slow(_: str) -> None:
        await asyncio.sleep(60)

    engine._close_waiting = slow  # type: ignore[method-assign, assignment]
    closing = threading.Thread(target=lambda: closed.append(engine.close_waiting(JOB)))
    closing.start()
    wait_until("it is closing the job", lambda: engine._waited_for)
    engine.close()
    closing.join(10)
    assert closed == [None]
