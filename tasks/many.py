"""Many jobs at once, over one connection: submitted and awaited together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tasks.current import current
from tasks.stored import priced, store, unknown
from worker.job.records import Record
from worker.job.terms import Terms

if TYPE_CHECKING:
    from worker.job.routing import Choice

#: Bytes of a job id made here: short to type, and 2^48 make a clash among millions unlikely.
_ID_BYTES = 6

#: Jobs of a list that are submitted in the same round trips.
_TOGETHER = 64


def new_id() -> str:
    return os.urandom(_ID_BYTES).hex()


def submit_many(
    task: str,
    calls: Iterable[Mapping[str, Any]],
    *,
    terms: Terms | None = None,
    tenant: str = "default",
    priority: str = "bulk",
    chosen: Choice | None = None,
) -> Iterator[str]:
    """Submit one job for each mapping of keyword arguments, and yield its id as it is submitted,
    over one connection. Of an iterator nothing is read ahead: who stops iterating, stops
    submitting. A list is submitted in pieces of 64 jobs, each in three round trips.

        ids = list(jobs.submit_many("tasks.generate", [{"prompt": p} for p in prompts]))

    A mapping may name its `job_id`, and `terms` of its own. `chosen`: how the model of all of them
    was chosen before. Raises LongstreamError as `submit` does.
    """
    from tasks.kinds import KINDS
    from tasks.submitting import submitted, submitted_by_celery
    from worker.job.submitting import submit_all
    from worker.ledger.allowed import refuse_spent
    from worker.store.connections import now_ms

    settings = current()
    options: Any = {"tenant": tenant, "priority": priority}
    together = _TOGETHER if isinstance(calls, Sequence) and task in KINDS else 1
    left = iter(calls)
    with store() as client:
        while piece := [dict(call) for call in islice(left, together)]:
            ids = [str(kwargs.pop("job_id", "") or new_id()) for kwargs in piece]
            own = [kwargs.pop("terms", terms) for kwargs in piece]
            named = [
                {"kwargs": kwargs, "job_id": job_id, "terms": on, **options}
                for kwargs, job_id, on in zip(piece, ids, own, strict=True)
            ]
            if task in KINDS:
                refuse_spent(client, settings, tenant, now_ms(client))
                jobs = [submitted(settings, task, (), chosen=chosen, **each) for each in named]
                submit_all(client, jobs)
            else:
                for each in named:
                    submitted_by_celery(task, (), **each)
            yield from ids


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
