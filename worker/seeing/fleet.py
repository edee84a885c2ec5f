"""What the store knows of all workers together, read at one moment.

Waiting line, leases, limits and keys of every pool: one reading of the state the scripts decide
by, however many workers there are. Nothing is counted here, so nothing is lost with a process.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import redis

from settings.model import Pool, Settings
from worker.admission.overview import AccountView, accounts
from worker.admission.waiting import Queue, queues
from worker.ledger.booking import day_of
from worker.ledger.books import read
from worker.ledger.totals import Row
from worker.store.connections import now_ms
from worker.store.keys import CANCELLED, job_keys, pool_keys

#: So many of those who wait are looked at for the oldest: those whose turn comes next.
LOOKED_AT = 100


class KeyOut(msgspec.Struct, frozen=True, kw_only=True):
    """A key that may not be used. `left_s` None: until someone repairs it."""

    alias: str
    kind: str
    cause: str
    left_s: float


class PoolLook(msgspec.Struct, frozen=True, kw_only=True):
    """One pool. `oldest_s`: the age of the oldest of those whose turn comes next; `last_s`: when
    the last of the line is expected to start. Both None when unknown or nobody waits."""

    pool: str
    queue: Queue
    #: Workers that renew, and the streams they take.
    workers: tuple[str, ...]
    slots: int
    oldest_s: float | None
    last_s: float | None
    keys: tuple[str, ...]
    out: tuple[KeyOut, ...]
    #: Jobs that were ever cancelled while they waited.
    cancelled: int

    @property
    def free(self) -> int:
        return max(0, self.slots - self.queue.running)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    pools: tuple[PoolLook, ...]
    accounts: tuple[AccountView, ...]
    #: What was spent since midnight UTC, by the store's clock.
    books: tuple[Row, ...]


def look(client: redis.Redis, settings: Settings) -> Fleet:
    """Raises what redis-py raises."""
    lines = queues(client, settings, LOOKED_AT)
    today = date.fromisoformat(day_of(now_ms(client)))
    return Fleet(
        pools=tuple(_pool(client, settings.pools[line.pool], line) for line in lines),
        accounts=tuple(accounts(client, settings)),
        books=tuple(read(client, today, today)),
    )


def _pool(client: redis.Redis, pool: Pool, queue: Queue) -> PoolLook:
    keys, now = pool_keys(pool.name), now_ms(client)
    pipeline = client.pipeline(transaction=False)
    pipeline.zrangebyscore(keys.workers, now, "+inf")
    pipeline.hgetall(keys.slots)
    pipeline.hgetall(keys.rests)
    pipeline.hget(CANCELLED, pool.name)
    ready = [waiting.job for waiting in queue.first if waiting.place is not None]
    for job in ready:
        pipeline.hget(job_keys(job).record, "created_ms")
    alive, slots, rests, cancelled, *created = pipeline.execute()
    known = [int(at) for at in created if at is not None]
    return PoolLook(
        pool=pool.name,
        queue=queue,
        workers=tuple(name.decode() for name in alive),
        slots=sum(int(slots.get(name, 0)) for name in alive),
        oldest_s=(now - min(known)) / 1000 if known else None,
        last_s=_last_s(queue),
        keys=tuple(key.alias for key in pool.keys),
        out=tuple(_out(pool, rests, now)),
        cancelled=int(cancelled or 0),
    )


def _last_s(queue: Queue) -> float | None:
    """Places follow each other at one pace, so two of them tell where the last one stands."""
    starts = [each.starts_s for each in queue.first if each.place is not None]
    if not starts or starts[0] is None or starts[-1] is None:
        return None
    if len(starts) == 1:
        return starts[0]
    pace_s = (starts[-1] - starts[0]) / (len(starts) - 1)
    return starts[0] + pace_s * (queue.waiting - 1)


def _out(pool: Pool, rests: dict[bytes, bytes], now: int) -> list[KeyOut]:
    found = []
    for key in pool.keys:
        for name in (f"key {key.alias}", f"account {key.account}"):
            stored = rests.get(name.encode())
            rest: dict[str, Any] = msgspec.json.decode(stored) if stored else {}
            if rest.get("until", 0) > now:
                left_s = (rest["until"] - now) / 1000
                found.append(
                    KeyOut(alias=key.alias, kind=rest["kind"], cause=rest["cause"], left_s=left_s)
                )
                break
    return found
