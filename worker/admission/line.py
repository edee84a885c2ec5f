"""The waiting line of a pool, and the leases it grants: typed calls of the scripts beside it.

A lease is capacity and ownership in one: who holds it may run the job and occupies one stream
of an account, until it expires unless renewed. What it will use is reserved with it, and replaced
by what it did use when it is settled. Time is the server's. Every function here only builds a
call, `(script, keys, args)`; `run` makes it on a sync client, `GroupCommit.call` on the engine's.
Repeating a call is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import redis

from settings.model import Account, Pool, WorkerSettings
from worker.admission.offers import packed
from worker.admission.tickets import PLAIN, Ticket
from worker.log.entries import Tokens
from worker.store.keys import inbox_key, pool_keys
from worker.store.scripts import Call, run as run, script

#: How an attempt ended, for the line: the whole answer came; the provider sent it away; else.
Ending = Literal["answered", "refused", ""]

_ENQUEUE = script("worker.admission", "enqueue")
_GRANT = script("worker.admission", "grant")
_START = script("worker.admission", "start")
_RENEW = script("worker.admission", "renew")
_SETTLE = script("worker.admission", "settle")
_WITHDRAW = script("worker.admission", "withdraw")


#: A wake-up nobody takes is forgotten after this time, in seconds.
_INBOX_S = 3600


class Lease(msgspec.Struct, frozen=True):
    """One grant of one job. `number` only grows, over all grants of the pool."""

    job_id: str
    pool: str
    number: int
    key: str


class Spent(msgspec.Struct, frozen=True):
    """What an attempt used and how it ended; `used` None: not known, so the estimate stays."""

    used: Tokens | None = None
    ending: Ending = ""


NOTHING_KNOWN = Spent()


class Granted(msgspec.Struct, frozen=True):
    """`sleep_ms`: when to ask again if nothing wakes the worker first; None: until woken."""

    leases: tuple[Lease, ...]
    sleep_ms: int | None
    #: Jobs put back because their lease expired, with the worker that held it.
    reclaimed: tuple[tuple[str, str], ...]
    #: Workers that were not heard of any more: whoever is told removes what they left behind.
    gone: tuple[str, ...]
    epoch: str


class Held(msgspec.Struct, frozen=True):
    """A lease to renew. `produced` are the tokens its answer has so far; `resumable` says that the
    provider keeps the answer, so that only this key can go on with it."""

    lease: Lease
    account: str = ""
    produced: int = 0
    resumable: bool = False


class Beat(msgspec.Struct, frozen=True):
    """What the heartbeat learned about the streams it renewed, and about everyone's leases."""

    #: When the next lease of any worker expires unless renewed; None: there is no lease.
    expiry_ms: int | None
    lost: tuple[Lease, ...]
    cancelled: tuple[Lease, ...]
    #: The store had lost these leases, and with them whether their jobs were cancelled.
    adopted: tuple[Lease, ...]
    epoch: str


class Patience(NamedTuple):
    """When nobody has called for `quiet_ms`, the store was out of reach: then every lease and every
    worker is given `grace_ms`, so that who was cut off can renew before anything is reclaimed."""

    quiet_ms: int
    grace_ms: int

    @classmethod
    def of(cls, worker: WorkerSettings) -> Patience:
        # No lease expires sooner after its owner was cut off. A call comes with every heartbeat at
        # least, and after a fault it is tried every second.
        quiet_s = max(0.9 * (worker.lease_s - worker.renew_s), 1.5 * worker.renew_s)
        return cls(int(quiet_s * 1000), int(worker.renew_s * 1000) + 1000)


#: Nobody is given anything.
IMPATIENT = Patience(0, 0)


def enqueue(pool: str, job_id: str, ticket: Ticket = PLAIN, *, wait_ms: int = 0) -> Call:
    """Answers 1 when the job was not in the line before."""
    return _ENQUEUE, pool_keys(pool).all(), [job_id, wait_ms, msgspec.json.encode(ticket)]


def grant(
    pool: Pool,
    accounts: Mapping[str, Account],
    worker: str,
    *,
    slots: int,
    elsewhere: int,
    handoff_ms: int,
    alive_ms: int,
    epoch: str = "",
    patience: Patience = IMPATIENT,
) -> Call:
    args: list[Any] = [worker, slots, elsewhere, handoff_ms, alive_ms, epoch, *patience]
    args += packed(pool, accounts)
    return _GRANT, pool_keys(pool.name).all(), args


def granted(pool: str, reply: Any) -> Granted:
    sleep_ms, leases, reclaimed, gone, epoch = reply
    return Granted(
        leases=tuple(
            Lease(job_id=job.decode(), pool=pool, number=int(number), key=alias.decode())
            for job, number, alias in _in(leases, 3)
        ),
        sleep_ms=None if sleep_ms < 0 else int(sleep_ms),
        reclaimed=tuple((job.decode(), worker.decode()) for job, worker in _in(reclaimed, 2)),
        gone=tuple(worker.decode() for worker in gone),
        epoch=epoch.decode(),
    )


def start(lease: Lease, worker: str, run_id: str, *, lease_ms: int) -> Call:
    """Answers 1 when this run may go on, 0 when the lease is gone or another run has it."""
    args = [lease.job_id, lease.number, worker, run_id, lease_ms]
    return _START, pool_keys(lease.pool).all(), args


def renew(
    pool: str,
    worker: str,
    streams: Sequence[Held],
    *,
    slots: int,
    lease_ms: int,
    alive_ms: int,
    epoch: str = "",
    patience: Patience = IMPATIENT,
) -> Call:
    args: list[Any] = [worker, slots, lease_ms, alive_ms, epoch, *patience]
    for held in streams:
        lease = held.lease
        args += [lease.job_id, lease.number, lease.key, held.account, held.produced]
        args.append(int(held.resumable))
    return _RENEW, pool_keys(pool).all(), args


def beat(streams: Sequence[Held], reply: Any) -> Beat:
    expiry_ms, each, epoch = reply
    answers = [(held.lease, answer) for held, answer in zip(streams, each, strict=True)]
    return Beat(
        expiry_ms=None if expiry_ms < 0 else int(expiry_ms),
        lost=tuple(lease for lease, answer in answers if answer == 0),
        cancelled=tuple(lease for lease, answer in answers if answer == 2),
        adopted=tuple(lease for lease, answer in answers if answer == 3),
        epoch=epoch.decode(),
    )


def settle(
    lease: Lease,
    *,
    back: bool,
    wait_ms: int = 0,
    spent: Spent = NOTHING_KNOWN,
    sticky: str | None = None,
) -> Call:
    """Free the lease; `back` puts the job into the line again, with its old turn.

    `sticky` is the only key the job may run on from now, "" sets it free, None changes nothing.
    """
    used = [-1, -1] if spent.used is None else [spent.used.input, spent.used.output]
    args = [lease.job_id, lease.number, "back" if back else "done", wait_ms, *used, spent.ending]
    return _SETTLE, pool_keys(lease.pool).all(), [*args, "-" if sticky is None else sticky]


def withdraw(pool: str, job_id: str) -> Call:
    """Answers b"waiting", b"held" or b"absent"; see the script."""
    return _WITHDRAW, pool_keys(pool).all(), [job_id]


def wake(client: redis.Redis, pool: str, worker: str, word: str) -> None:
    """Put a word into a worker's inbox; one that nobody takes is forgotten."""
    inbox = inbox_key(pool, worker)
    pipeline = client.pipeline(transaction=True)
    pipeline.lpush(inbox, word)
    pipeline.expire(inbox, _INBOX_S)
    pipeline.execute()


def _in(flat: Sequence[Any], size: int) -> Iterable[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)
