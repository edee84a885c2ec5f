"""What to tell a reader while nothing flows: where the job is, and what it waits for."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from worker.errors import UnknownJob
from worker.job.records import State
from worker.log.view import Status
from worker.store.keys import PoolKeys, job_keys, pool_keys

if TYPE_CHECKING:
    import redis

#: A rest that ends only by hand is stored as one of very many years.
_NEVER_S = 10 * 365 * 86_400


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
    return (yield from _waiting(job_id, keys, now, why))


def status_of(client: redis.Redis, job_id: str) -> Status:
    """As `status_steps`, over a connection."""
    steps, reply = status_steps(job_id), None
    while True:
        try:
            command = steps.send(reply)
        except StopIteration as done:
            status: Status = done.value
            return status
        reply = client.execute_command(*command)  # type: ignore[no-untyped-call]


def _now_ms() -> Generator[tuple[Any, ...], Any, int]:
    seconds, micros = yield ("TIME",)
    return int(seconds) * 1000 + int(micros) // 1000


def _orphaned(workers: str, now: int, name: str) -> Generator[tuple[Any, ...], Any, Status]:
    alive = yield ("ZCOUNT", workers, now, "+inf")
    if alive:
        return Status(state="lost", detail=f"worker {name} is gone; another takes over")
    return Status(state="lost", detail=f"worker {name} is gone and {NO_WORKER}")


def _waiting(
    job_id: str, keys: PoolKeys, now: int, why: bytes | None
) -> Generator[tuple[Any, ...], Any, Status]:
    from worker.admission.holdups import held_by_budget, hold_up

    last = f"last time: {why.decode()}" if why else ""
    alive = yield ("ZCOUNT", keys.workers, now, "+inf")
    ticket = yield ("HGET", keys.tickets, job_id)
    due = yield ("ZSCORE", keys.delayed, job_id)
    place = None
    if ticket is not None:
        place = yield ("ZRANK", getattr(keys, json.loads(ticket)["class"]), job_id)
    if not alive:
        return _status(NO_WORKER, last, place=place)
    if due is not None:
        wait_s = round((int(due) - now) / 1000)
        if why is not None and held_by_budget(why):
            return _status(why.decode(), "", starts_ms=int(due))
        when = f"not before {wait_s} s" if wait_s > 0 else "its time has come"
        return _status(when, last, starts_ms=int(due))
    if place is None:
        return _status("being handed to a worker", last)
    slots = yield ("HVALS", keys.slots)
    used = yield ("HVALS", keys.load)
    held = hold_up(
        place,
        now,
        running=sum(map(int, used)),
        slots=sum(map(int, slots)),
        blocked=(yield ("GET", keys.blocked)),
        progress=(yield ("GET", keys.fair)),
    )
    starts_ms = None if held.starts_ms is None else int(held.starts_ms)
    return _status(held.reason, last, place=place, starts_ms=starts_ms, now=now)


def _status(
    reason: str,
    last: str,
    *,
    place: int | None = None,
    starts_ms: int | None = None,
    now: int | None = None,
) -> Status:
    ahead = [] if place is None else [f"{place} ahead of it" if place else "next in the line"]
    expected = []
    if starts_ms is not None and now is not None:
        expected = [starting_in(max(0, starts_ms - now) / 1000)]
    parts = [*ahead, *expected, *filter(None, (reason, last))]
    return Status(
        state="waiting",
        detail="; ".join(parts),
        place=place,
        reason=reason,
        starts_ms=starts_ms,
    )


NO_WORKER = "no worker is running: start one with `longstream worker`, or `longstream up`"


def starting_in(seconds: float) -> str:
    """When a job is expected to start, in words."""
    if seconds > _NEVER_S:
        return "not until its key is corrected, or `longstream keys enable` brings it back"
    return f"expected to start in {seconds:.0f} s"
