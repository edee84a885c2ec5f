"""Cancelling a job, whoever has it or had it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest

from settings.model import Account
from tests.conftest import Store
from tests.contract.test_runner import JOB, REQUEST, Left, Provider, attempt
from tests.harness.journal import journal, say
from tests.harness.lines import Line
from worker.admission.line import run, settle
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Work
from worker.job.cancel import Cancelled, cancel
from worker.log import reader
from worker.log.claim import Point
from worker.log.commit import GroupCommit
from worker.messages.message import plain_message
from worker.upstream.happenings import Finished, Usage


class Backend:
    """Notes what Celery is told."""

    def __init__(self) -> None:
        self.revoked: list[str] = []

    def mark_as_failure(self, task_id: str, *_: Any, **__: Any) -> None:
        self.revoked.append(task_id)


class Offered(NamedTuple):
    line: Line
    backend: Backend
    cancelling: asyncio.Task[Cancelled]


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


async def offered(store: Store, monkeypatch: pytest.MonkeyPatch, offered_s: float) -> Offered:
    """A job whose worker handed it back while its response goes on; it waits for long."""
    monkeypatch.setattr("worker.job.cancel._OFFERED_S", offered_s)
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
    backend = Backend()
    celery: Any = SimpleNamespace(backend=backend)
    cancelling = asyncio.to_thread(cancel, celery, store.sync, line.settings, JOB)
    return Offered(line, backend, asyncio.create_task(cancelling))


async def test_a_job_that_waits_while_its_response_goes_on_is_closed_by_a_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is granted at once, although it was to wait for a minute."""
    found = await offered(store, monkeypatch, 30)
    async with asyncio.timeout(10):
        while not (leases := found.line.ask("w2").leases):
            await asyncio.sleep(0.005)
        commit = GroupCommit(store.aio())
        provider = Left(Usage(5, 0, 70, 60))
        work = Work(lease=leases[0], build=lambda: REQUEST, read=lambda: Whole(str))
        running = Attempt(found.line.settings, "w2", commit, provider, work)  # type: ignore[arg-type]
        verdict = await running.run()
        assert await found.cancelling is Cancelled.STOPPING
        await commit.close()

    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, provider.cancelled) == ("cancelled", ["a resp_1"])
    assert reader.text_of(store.sync, JOB) == "so far"
    assert found.backend.revoked == []


async def test_a_job_that_no_worker_takes_is_cancelled_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await offered(store, monkeypatch, 0.05)
    async with asyncio.timeout(10):
        assert await found.cancelling is Cancelled.DONE
    assert found.backend.revoked == [JOB]
    assert found.line.grant() == []
