"""What to tell a reader while nothing flows: where the job is, and what it waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from worker.errors import UnknownJob
from worker.keys import job_keys, pool_keys
from worker.log.view import Status
from worker.records import State


def status_steps(job_id: str) -> Generator[tuple[Any, ...], Any, Status]:
    """Commands in, replies back, a Status at the end. Raises UnknownJob."""
    record = job_keys(job_id).record
    state, pool, worker, key, why, cancel = yield (
        ("HMGET", record, "state", "pool", "worker", "key", "why", "cancel_ms")
    )
    if state is None:
        raise UnknownJob(f"job {job_id} has no record any more: it is past retention")
    if state == State.ENDED.encode():
        return Status(state="ended")
    keys = pool_keys(pool.decode())
    now = yield from _now_ms()
    if state == State.RUNNING.encode():
        expiry = yield ("ZSCORE", keys.leases, job_id)
        name = worker.decode()
        if expiry is None or float(expiry) < now:
            return (yield from _orphaned(keys.workers, now, name))
        detail = (
            "stopping: cancel was asked for" if cancel else f"on {name} with key {key.decode()}"
        )
        return Status(state="running", detail=detail)
    return (yield from _waiting(job_id, keys.line, keys.delayed, keys.workers, now, why))


def _now_ms() -> Generator[tuple[Any, ...], Any, int]:
    seconds, micros = yield ("TIME",)
    return int(seconds) * 1000 + int(micros) // 1000


def _orphaned(workers: str, now: int, name: str) -> Generator[tuple[Any, ...], Any, Status]:
    alive = yield ("ZCOUNT", workers, now, "+inf")
    if alive:
        return Status(state="lost", detail=f"worker {name} is gone; another takes over")
    return Status(state="lost", detail=f"worker {name} is gone and {NO_WORKER}")


def _waiting(
    job_id: str, line: str, delayed: str, workers: str, now: int, why: bytes | None
) -> Generator[tuple[Any, ...], Any, Status]:
    alive = yield ("ZCOUNT", workers, now, "+inf")
    place = yield ("ZRANK", line, job_id)
    due = yield ("ZSCORE", delayed, job_id)
    reason = f" ({why.decode()})" if why else ""
    if not alive:
        return Status(state="waiting", detail=f"{NO_WORKER}{reason}", place=place)
    if due is not None:
        return Status(
            state="waiting", detail=f"not before {max(0, int(due) - now) / 1000:.0f} s{reason}"
        )
    if place is None:
        return Status(state="waiting", detail=f"being handed to a worker{reason}")
    ahead = f"{place} ahead of it" if place else "next in the line"
    return Status(state="waiting", detail=f"{ahead}{reason}", place=place)


NO_WORKER = "no worker is running: start one with `longstream worker`, or `longstream up`"
