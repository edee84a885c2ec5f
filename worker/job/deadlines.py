"""Deadlines that pass while a job waits. One that runs has a clock of its own; one that waits has
none, and would wait on for hours where every key rests: a worker ends it with its next heartbeat.
"""

from __future__ import annotations

from typing import Any

import redis
from celery import Celery

from worker.job.cancel import Close, tell_celery
from worker.outcomes import Outcome
from worker.store.keys import DEADLINES, job_keys, pool_keys
from worker.store.scripts import script

_OVERDUE = script("worker.log", "overdue")

#: How long a job is left to the worker that was told of it, in milliseconds.
_AGAIN_MS = 30_000


def overdue(client: redis.Redis) -> list[str]:
    """Jobs whose deadlines have passed and that nobody else is told of now."""
    found: Any = _OVERDUE.call(client, [DEADLINES], [_AGAIN_MS])
    return [job.decode() for job in found]


def expire(celery: Celery, client: redis.Redis, job_id: str, close: Close) -> None:
    """End the job, unless it runs: then its worker does."""
    told: Any = client.hmget(job_keys(job_id).record, "state", "pool", "outcome")
    state, pool, ended = told
    # One that was ended for this may not have come into the books, nor to Celery's ears.
    if state in (b"waiting", b"running") or ended == Outcome.EXPIRED.encode():
        if client.hexists(pool_keys(pool.decode()).held, job_id):
            return
        outcome = close()
        if outcome is None:
            return
        if outcome is Outcome.EXPIRED:
            tell_celery(celery, client, job_id, outcome)
    client.zrem(DEADLINES, job_id)
