"""What is left in Redis that should not be, once nothing runs or waits.

A key without a TTL is kept for ever, so each one that is not in `keys.lasting_keys` is a leak, and
so is a lease of a job that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import redis

from worker.store.keys import lasting_keys, pool_keys


@dataclass(frozen=True, slots=True)
class Leftovers:
    keys: tuple[str, ...]
    leases: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.keys or self.leases)


def leftovers(client: redis.Redis, pools: Iterable[str]) -> Leftovers:
    """Ask it when every job has ended and its worker had a moment to settle."""
    pools = tuple(pools)
    kept = lasting_keys(pools)
    keys = [key.decode() for key in client.scan_iter(count=1000)]
    strange = [key for key in keys if key not in kept and client.ttl(key) == -1]
    leases: list[str] = []
    for pool in pools:
        held: Any = client.hkeys(pool_keys(pool).held)
        leases += [job.decode() for job in held]
    return Leftovers(keys=tuple(sorted(strange)), leases=tuple(sorted(leases)))
