"""Cancelling a job, whoever has it or had it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from settings.model import Account
from tests.conftest import Store
from tests.harness.journal import journal, say
from tests.harness.lines import Line
from worker.cancel import Cancelled, cancel
from worker.log import reader
from worker.submission import plain_message


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
