"""Waiting for many jobs at once, over one connection: which of them have ended, and their records.

Asking costs one pipeline of small commands, however large the jobs are; it is asked again the
sooner, the more has ended.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import redis

from worker.job.records import Record, State, parse_record
from worker.store.keys import job_keys

_SOONEST_S, _LATEST_S = 0.02, 0.5
#: At most so many records are fetched at once: their results may be long.
_PAGE = 100
#: How long an ended job is kept whose answer stands elsewhere, in seconds.
_LOG_S, _RECORD_S, _TOMBSTONE_S = 30, 300, 3600


class Endings:
    """Waits with growing patience."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._pause_s = _SOONEST_S

    def among(
        self, job_ids: Collection[str], within_s: float | None = None
    ) -> list[tuple[str, Record | None]]:
        """Those that have ended, with their records, None when past retention. When none has,
        nothing, after a little sleep."""
        ids = list(job_ids)
        pipeline = self._client.pipeline(transaction=False)
        for job_id in ids:
            pipeline.hget(job_keys(job_id).record, "state")
        states = pipeline.execute()
        over = (None, State.ENDED.encode())
        ended = [job for job, state in zip(ids, states, strict=True) if state in over][:_PAGE]
        if not ended:
            time.sleep(self._pause_s if within_s is None else min(self._pause_s, within_s))
            self._pause_s = min(_LATEST_S, self._pause_s * 1.5)
            return []
        self._pause_s = _SOONEST_S
        return self._records(ended)

    def _records(self, ids: list[str]) -> list[tuple[str, Record | None]]:
        pipeline = self._client.pipeline(transaction=False)
        for job_id in ids:
            pipeline.hgetall(job_keys(job_id).record)
        replies = pipeline.execute()
        return [(job, parse_record(job, raw)) for job, raw in zip(ids, replies, strict=True)]


def release(client: redis.Redis, job_id: str) -> None:
    """Let go of an ended job: what it said stands elsewhere now. Its log goes soon; its record
    stays until whoever recovers from a worker that died has booked what it used."""
    keys = job_keys(job_id)
    pipeline: Any = client.pipeline(transaction=False)
    pipeline.expire(keys.log, _LOG_S, lt=True)
    pipeline.expire(keys.record, _RECORD_S, lt=True)
    # Long enough for a submit whose reply was lost.
    pipeline.expire(keys.tombstone, _TOMBSTONE_S, lt=True)
    pipeline.execute()
