"""How long jobs were without a worker after theirs was struck."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import redis

from tasks.local.chaos.plan import Fault
from tasks.local.chaos.stage import Worker
from worker.store.keys import JOBS, job_keys

_POLL_S = 0.05
#: A job that has no new attempt after this is counted with this time, and is lost anyway.
_LONGEST_S = 120.0


class Recovery:
    """Watches the jobs that ran on a struck worker until each has a new attempt or has ended."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._watching: list[asyncio.Task[None]] = []
        self.times_s: dict[str, list[float]] = {}

    def running_on(self, worker: Worker) -> dict[str, int]:
        """Job id to attempt; nothing when Redis is away just then."""
        try:
            return self._running_on(worker)
        except (redis.RedisError, OSError):
            return {}

    def _running_on(self, worker: Worker) -> dict[str, int]:
        found: Any = self._client.zrange(JOBS, 0, -1)
        pipeline = self._client.pipeline(transaction=False)
        for job_id in found:
            pipeline.hmget(job_keys(job_id.decode()).record, "state", "worker", "attempt")
        running = {}
        for job_id, (state, name, attempt) in zip(found, pipeline.execute(), strict=True):
            if state == b"running" and worker.named((name or b"").decode()):
                running[job_id.decode()] = int(attempt)
        return running

    def struck(self, fault: Fault, running: dict[str, int]) -> None:
        for job_id, attempt in running.items():
            watch = self._watch(fault, job_id, attempt, time.monotonic())
            self._watching.append(asyncio.create_task(watch))

    async def done(self) -> None:
        """Every job that was struck has gone on, or was waited for long enough."""
        await asyncio.gather(*self._watching)

    def summary(self) -> dict[str, dict[str, float]]:
        """Jobs, median and worst in seconds, by fault."""
        return {
            fault: {
                "jobs": len(times),
                "median_s": round(statistics.median(times), 2),
                "worst_s": round(max(times), 2),
            }
            for fault, times in sorted(self.times_s.items())
        }

    async def _watch(self, fault: Fault, job_id: str, attempt: int, began: float) -> None:
        while (waited := time.monotonic() - began) < _LONGEST_S:
            try:
                told = await asyncio.to_thread(self._told, job_id)
            except (redis.RedisError, OSError):
                told = None
            if told is not None and told[1] > attempt:
                break
            if told is not None and told[0] == "ended":
                return
            await asyncio.sleep(_POLL_S)
        self.times_s.setdefault(fault, []).append(waited)

    def _told(self, job_id: str) -> tuple[str, int]:
        told: Any = self._client.hmget(job_keys(job_id).record, "state", "attempt")
        state, attempt = told
        return (state or b"").decode(), int(attempt or 0)
