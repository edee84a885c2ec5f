"""Whether work gets done: asked of the store, which every part of the fleet must pass through.

A process that answers proves nothing. A worker that renews, a key that may be used, and a line
that moves do. Each check that fails says what is wrong, and the way out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import redis

from settings.model import Settings
from worker.seeing.fleet import Fleet, KeyOut, PoolLook, look
from worker.seeing.vitals import Check
from worker.store.connections import connect, shown

#: An answer comes within this time, in seconds, or the store counts as away.
TIMEOUT_S = 2.0
#: A rate limit that keeps every key out for longer is an outage, in seconds.
LONG_S = 60.0
#: A job that could run and waits longer shows that nobody serves the line, in seconds.
UNSERVED_S = 30.0
#: What looks unserved is looked at again after this time: a job may just have come back.
AGAIN_S = 1.0


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`oldest_waiting_s` None: nobody waits, or the store does not say."""

    ready: bool
    checks: tuple[Check, ...]
    oldest_waiting_s: float | None

    @property
    def reasons(self) -> list[str]:
        return [f"{check.check}: {check.says}" for check in self.checks if not check.ok]


def readiness(settings: Settings, pause: Callable[[float], None] = time.sleep) -> Readiness:
    """Look now. Never raises for what it looks at."""
    where = shown(settings.store_url)
    try:
        with connect(settings.store_url, TIMEOUT_S) as client:
            fleet = look(client, settings)
            if suspects := {pool.pool: _head(pool) for pool in fleet.pools if _unserved(pool)}:
                pause(AGAIN_S)
                fleet = look(client, settings)
                suspects = {p.pool: _head(p) for p in fleet.pools if p.pool in suspects}
    except (redis.RedisError, OSError) as error:
        says = f"{where} does not answer ({type(error).__name__})"
        return _judged([Check(check="store", ok=False, says=says, remedy="start it")], None)
    checks = [Check(check="store", ok=True, says=f"{where} answers")]
    for pool in fleet.pools:
        checks += [_workers(pool), _keys(pool), _line(pool, suspects.get(pool.pool))]
    return _judged(checks, _oldest_s(fleet))


def _judged(checks: list[Check], oldest_s: float | None) -> Readiness:
    ready = all(check.ok for check in checks)
    return Readiness(ready=ready, checks=tuple(checks), oldest_waiting_s=oldest_s)


def _oldest_s(fleet: Fleet) -> float | None:
    ages = [pool.oldest_s for pool in fleet.pools if pool.oldest_s is not None]
    return round(max(ages), 1) if ages else None


def _workers(pool: PoolLook) -> Check:
    name = f"workers {pool.pool}"
    if pool.slots > 0:
        says = f"{len(pool.workers)} renew, {pool.free} of {pool.slots} slots are free"
        return Check(check=name, ok=True, says=says)
    says = f"none of {len(pool.workers)} takes jobs" if pool.workers else "no worker renews"
    return Check(check=name, ok=False, says=says, remedy="start `longstream worker`")


def _keys(pool: PoolLook) -> Check:
    name, gone = f"keys {pool.pool}", [key for key in pool.out if _lasts(key)]
    if len(gone) < len(pool.keys):
        usable = len(pool.keys) - len(pool.out)
        return Check(check=name, ok=True, says=f"{usable} of {len(pool.keys)} may be used now")
    return Check(
        check=name,
        ok=False,
        says="no key may be used: " + "; ".join(f"{key.alias}: {key.cause}" for key in gone),
        remedy="correct the key, or `longstream keys enable ALIAS`",
    )


def _lasts(key: KeyOut) -> bool:
    """A short rest for a rate limit is everyday life; a refused key or an empty account is not."""
    return key.kind in ("auth", "quota") or key.left_s > LONG_S


def _line(pool: PoolLook, suspect: str | None) -> Check:
    name, waiting = f"line {pool.pool}", pool.queue.waiting
    oldest = "" if pool.oldest_s is None else f", the oldest for {pool.oldest_s:.0f} s"
    if suspect is not None and _unserved(pool) and suspect == _head(pool):
        says = (
            f"{waiting} wait{oldest}, though {pool.free} slots are free and nothing holds them up"
        )
        return Check(check=name, ok=False, says=says, remedy="restart the workers")
    return Check(check=name, ok=True, says=f"{waiting} wait{oldest}")


def _unserved(pool: PoolLook) -> bool:
    first = pool.queue.first[0] if pool.queue.first else None
    due = first is not None and first.place is not None and first.starts_s == 0
    return due and pool.free > 0 and (pool.oldest_s or 0) > UNSERVED_S


def _head(pool: PoolLook) -> str:
    return pool.queue.first[0].job if pool.queue.first else ""
