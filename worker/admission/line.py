"""The waiting line of a pool, and the leases it grants: typed calls of the scripts beside it.

A lease is capacity and ownership in one: who holds it may run the job and occupies one stream
of an account, until it expires unless renewed. Time is the server's. Every function here only
builds a call, `(script, keys, args)`; `run` makes it on a sync client, `GroupCommit.call` on the
engine's. Repeating a call is safe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from settings.model import Account, Pool
from worker.keys import inbox_key, pool_keys
from worker.scripts import Script, script

Call = tuple[Script, list[str], list[Any]]

_ENQUEUE = script("worker.admission", "enqueue")
_GRANT = script("worker.admission", "grant")
_START = script("worker.admission", "start")
_RENEW = script("worker.admission", "renew")
_SETTLE = script("worker.admission", "settle")
_WITHDRAW = script("worker.admission", "withdraw")


@dataclass(frozen=True, slots=True)
class Lease:
    """One grant of one job. `number` only grows, over all grants of the pool."""

    job_id: str
    pool: str
    number: int
    key: str


@dataclass(frozen=True, slots=True)
class Granted:
    """`sleep_ms`: when to ask again if nothing wakes the worker first; None: until woken."""

    leases: tuple[Lease, ...]
    sleep_ms: int | None
    #: Jobs put back because their lease expired, with the worker that held it.
    reclaimed: tuple[tuple[str, str], ...]
    #: Workers that were not heard of any more: whoever is told removes what they left behind.
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """What the heartbeat learned about the streams it renewed, and about everyone's leases."""

    #: When the next lease of any worker expires unless renewed; None: there is no lease.
    expiry_ms: int | None
    lost: tuple[Lease, ...]
    cancelled: tuple[Lease, ...]


def run(client: redis.Redis, call: Call) -> Any:
    """Make a call now. Raises what redis-py raises."""
    made, keys, args = call
    return made.call(client, keys, args)


def enqueue(pool: str, job_id: str, *, wait_ms: int = 0) -> Call:
    k = pool_keys(pool)
    return _ENQUEUE, [k.line, k.delayed, k.places, k.held, k.counter, k.nudge], [job_id, wait_ms]


def grant(
    pool: Pool,
    accounts: dict[str, Account],
    worker: str,
    *,
    slots: int,
    elsewhere: int,
    handoff_ms: int,
    alive_ms: int,
) -> Call:
    k = pool_keys(pool.name)
    keys = [k.line, k.delayed, k.places, k.leases, k.held, k.load, k.streams, k.workers, k.slots]
    offers: list[Any] = []
    for key in pool.keys:
        account = accounts.get(key.account)
        offers += [key.alias, key.account, (account and account.streams) or 0]
    args = [worker, slots, elsewhere, handoff_ms, alive_ms, *offers]
    return _GRANT, [*keys, k.counter, k.nudge], args


def granted(pool: str, reply: Any) -> Granted:
    sleep_ms, leases, reclaimed, gone = reply
    return Granted(
        leases=tuple(
            Lease(job_id=job.decode(), pool=pool, number=int(number), key=alias.decode())
            for job, number, alias in _in(leases, 3)
        ),
        sleep_ms=None if sleep_ms < 0 else int(sleep_ms),
        reclaimed=tuple((job.decode(), worker.decode()) for job, worker in _in(reclaimed, 2)),
        gone=tuple(worker.decode() for worker in gone),
    )


def start(lease: Lease, worker: str, run_id: str, *, lease_ms: int) -> Call:
    """Answers 1 when this run may go on, 0 when the lease is gone or another run has it."""
    k = pool_keys(lease.pool)
    return _START, [k.leases, k.held], [lease.job_id, lease.number, worker, run_id, lease_ms]


def renew(
    pool: str, worker: str, leases: Sequence[Lease], *, slots: int, lease_ms: int, alive_ms: int
) -> Call:
    k = pool_keys(pool)
    args: list[Any] = [worker, slots, lease_ms, alive_ms]
    for lease in leases:
        args += [lease.job_id, lease.number]
    return _RENEW, [k.leases, k.held, k.workers, k.slots], args


def beat(leases: Sequence[Lease], reply: Any) -> Beat:
    expiry_ms, each = reply
    answers = list(zip(leases, each, strict=True))
    return Beat(
        expiry_ms=None if expiry_ms < 0 else int(expiry_ms),
        lost=tuple(lease for lease, answer in answers if answer == 0),
        cancelled=tuple(lease for lease, answer in answers if answer == 2),
    )


def settle(lease: Lease, worker: str, *, back: bool, wait_ms: int = 0) -> Call:
    """Free the lease; `back` puts the job into the line again, at its old place."""
    k = pool_keys(lease.pool)
    keys = [k.line, k.delayed, k.places, k.leases, k.held, k.load, k.streams, k.nudge]
    args = [lease.job_id, lease.number, "back" if back else "done", wait_ms]
    return _SETTLE, [*keys, inbox_key(lease.pool, worker)], args


def withdraw(pool: str, job_id: str) -> Call:
    """Answers b"waiting", b"held" or b"absent"; see the script."""
    k = pool_keys(pool)
    return _WITHDRAW, [k.line, k.delayed, k.places, k.held], [job_id, k.inbox]


def holder(client: redis.Redis, pool: str, job_id: str) -> str | None:
    """The worker that holds the job's lease."""
    stored = client.hget(pool_keys(pool).held, job_id)
    return None if stored is None else str(json.loads(stored)["worker"])


def _in(flat: Sequence[Any], size: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)
