"""Many jobs at once, over one connection: submitted one by one, awaited all together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.current import current
from tasks.stored import priced, store, unknown
from worker.records import Record
from worker.terms import Terms

#: Bytes of a job id made here: short to type, and 2^48 make a clash among millions unlikely.
_ID_BYTES = 6


def new_id() -> str:
    return os.urandom(_ID_BYTES).hex()


def submit_many(
    task: str,
    calls: Iterable[Mapping[str, Any]],
    *,
    terms: Terms | None = None,
    tenant: str = "default",
    priority: str = "bulk",
) -> Iterator[str]:
    """Submit one job for each mapping of keyword arguments, and yield its id as it is submitted,
    over one connection. Nothing is read ahead: who stops iterating, stops submitting.

        ids = list(jobs.submit_many("tasks.generate", ({"prompt": p} for p in prompts)))

    A mapping may name its `job_id`. Raises LongstreamError as `submit` does.
    """
    from tasks.kinds import KINDS
    from tasks.submitting import submitted, submitted_by_celery
    from worker.ledger.allowed import refuse_spent
    from worker.submission import now_ms, submit

    settings = current()
    with store() as client:
        for call in calls:
            kwargs = dict(call)
            job_id = str(kwargs.pop("job_id", "") or new_id())
            options: Any = {"terms": terms, "tenant": tenant, "priority": priority}
            if task in KINDS:
                refuse_spent(client, settings, tenant, now_ms(client))
                submit(client, submitted(settings, task, (), kwargs, job_id=job_id, **options))
            else:
                submitted_by_celery(task, (), kwargs, job_id=job_id, **options)
            yield job_id


def wait(job_ids: Iterable[str], timeout_s: float | None = None) -> Iterator[Record]:
    """The records of these jobs, each as soon as its job has ended.

        for record in jobs.wait(ids):
            print(record.id, record.outcome, record.result)

    Raises UnknownJob, and TimeoutError when some have not ended in time; waiting stops no job.
    """
    from tasks.ended import Endings

    left = dict.fromkeys(job_ids)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    with store() as client:
        endings = Endings(client)
        while left:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{len(left)} jobs have not ended in {timeout_s:g} s")
            within_s = None if until is None else max(0.0, until - time.monotonic())
            for job_id, record in endings.among(left, within_s):
                del left[job_id]
                if record is None:
                    raise unknown(job_id)
                yield priced(record)
