"""The worker: takes a job from the waiting line to its sealed log.

app        the Celery app; task: the base class of streaming tasks; engine: the loop of all streams
job        a job as it is kept: terms, record, submitting, finding, cancelling
admission  the waiting line, accounts and leases
messages   Celery's messages: kept, published, received, revoked
attempt    one attempt of a job, from its lease to what it leaves behind
upstream   the patched client: bytes from a provider become happenings
log        the job's log: append, read, follow, verify
ledger     what jobs have used, what it cost, and what still may be spent
seeing     log lines, numbers, traces, readiness
steps      what runs in a worker process beside Celery
doctor     what must be true before jobs are safe
store      connections to Redis, key names, scripts; stands on nothing else here
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`celery -A worker worker` looks for `celery`; nothing else should load Celery by import."""
    if name == "celery":
        from settings.errors import SettingsError
        from worker.app import app

        try:
            app.longstream  # noqa: B018
        except SettingsError as error:
            raise SystemExit("\n".join(f"longstream: {line}" for line in error.problems)) from None
        return app
    raise AttributeError(name)
