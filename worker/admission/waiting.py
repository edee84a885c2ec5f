"""Who waits, in the order of their turns, and for what.

The order across classes is what the grant script would take if everything fitted: classes in turn
by their weights, within a class by the jobs' own turns. Places count from 1.
"""

from __future__ import annotations

from typing import Any

import msgspec
import redis

from settings.model import Settings
from worker.admission.holdups import held_by_budget, hold_up
from worker.admission.states import progress
from worker.admission.tickets import CLASSES
from worker.store.connections import now_ms
from worker.store.keys import PoolKeys, job_keys, pool_keys

#: As queues.lua has them.
_WEIGHTS = {"urgent": 70, "normal": 25, "bulk": 5}


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One waiting job. `starts_s`: seconds from now; None: nobody knows."""

    pool: str
    place: int | None
    job: str
    tenant: str
    priority: str
    model: str
    tokens: int
    waits_for: str
    starts_s: float | None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The first of those who wait, and how many there are and could run."""

    pool: str
    waiting: int
    delayed: int
    running: int
    workers: int
    slots: int
    first: tuple[Waiting, ...]


class _Read(msgspec.Struct, frozen=True):
    now: float
    jobs: dict[str, list[bytes]]
    delayed: list[tuple[bytes, float]]
    progress: bytes | None
    blocked: bytes | None
    counts: list[int]
    slots: int


def queues(client: redis.Redis, settings: Settings, count: int) -> list[Queue]:
    """The line of every pool, with at most `count` jobs of each."""
    return [_queue(client, pool, count) for pool in settings.pools]


def _queue(client: redis.Redis, pool: str, count: int) -> Queue:
    keys = pool_keys(pool)
    read = _read(client, keys, count)
    due = dict(read.delayed)
    names = [job for jobs in read.jobs.values() for job in jobs] + list(due)
    tickets = _tickets(client, keys, names)
    ordered = _in_turn(read, tickets)[:count]
    line = [
        _waiting(pool, job, tickets[job], place, *_held_up(read, place))
        for place, job in enumerate(ordered, 1)
    ]
    reasons = _reasons(client, list(due))
    later = [
        _waiting(pool, job, tickets[job], None, reasons[job], (at - read.now) / 1000)
        for job, at in due.items()
        if job in tickets
    ]
    *waiting, delayed, running, workers = read.counts
    return Queue(
        pool=pool,
        waiting=sum(waiting),
        delayed=delayed,
        running=running,
        workers=workers,
        slots=read.slots,
        first=tuple((line + later)[:count]),
    )


def _read(client: redis.Redis, keys: PoolKeys, count: int) -> _Read:
    lines = [getattr(keys, name) for name in CLASSES]
    now = now_ms(client)
    pipeline = client.pipeline(transaction=False)
    for name in lines:
        pipeline.zrange(name, 0, count - 1)
    pipeline.zrange(keys.delayed, 0, count - 1, withscores=True)
    pipeline.get(keys.fair)
    pipeline.get(keys.blocked)
    pipeline.hvals(keys.slots)
    for name in (*lines, keys.delayed, keys.leases):
        pipeline.zcard(name)
    pipeline.zcount(keys.workers, now, "+inf")
    *jobs, delayed, fair, blocked, slots = (replies := pipeline.execute())[: len(lines) + 4]
    return _Read(
        now=now,
        jobs=dict(zip(CLASSES, jobs, strict=True)),
        delayed=delayed,
        progress=fair,
        blocked=blocked,
        counts=replies[len(lines) + 4 :],
        slots=sum(map(int, slots)),
    )


def _reasons(client: redis.Redis, jobs: list[bytes]) -> dict[bytes, str]:
    """What delayed jobs wait for: a budget that held them back, or else their time."""
    pipeline = client.pipeline(transaction=False)
    for job in jobs:
        pipeline.hget(job_keys(job.decode()).record, "why")
    found = zip(jobs, pipeline.execute(), strict=True)
    return {job: (why or b"").decode() if held_by_budget(why) else "its time" for job, why in found}


def _tickets(client: redis.Redis, keys: PoolKeys, jobs: list[bytes]) -> dict[bytes, Any]:
    if not jobs:
        return {}
    found: Any = client.hmget(keys.tickets, jobs)
    pairs = zip(jobs, found, strict=True)
    return {job: msgspec.json.decode(text) for job, text in pairs if text is not None}


def _in_turn(read: _Read, tickets: dict[bytes, Any]) -> list[bytes]:
    numbers = progress(read.progress)
    reached, again = numbers.reached, dict(zip(CLASSES, numbers.again, strict=True))
    left = {name: [job for job in read.jobs[name] if job in tickets] for name in CLASSES}
    ordered = []
    while any(left.values()):
        name = min(filter(left.__getitem__, CLASSES), key=lambda c: max(reached, again[c]))
        job = left[name].pop(0)
        reached = max(reached, again[name])
        again[name] = reached + tickets[job]["cost"] / _WEIGHTS[name]
        ordered.append(job)
    return ordered


def _held_up(read: _Read, place: int) -> tuple[str, float | None]:
    running, workers = read.counts[-2:]
    if not workers:
        return "a worker: none is running", None
    reason, starts_ms = hold_up(
        place - 1,
        read.now,
        running=running,
        slots=read.slots,
        blocked=read.blocked,
        progress=read.progress,
    )
    return reason or "its turn", None if starts_ms is None else (starts_ms - read.now) / 1000


def _waiting(
    pool: str, job: bytes, ticket: Any, place: int | None, waits_for: str, starts_s: float | None
) -> Waiting:
    return Waiting(
        pool=pool,
        place=place,
        job=job.decode(),
        tenant=ticket["tenant"],
        priority=ticket["class"],
        model=ticket["model"],
        tokens=int(ticket["cost"]),
        waits_for=waits_for,
        starts_s=None if starts_s is None else round(max(0.0, starts_s), 1),
    )
