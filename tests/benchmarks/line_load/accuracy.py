"""Whether limits hold in every window, and how much of them is used; by the store's own times."""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.benchmarks.line_load.workers import POOL, Grant, Load, Processes
from tests.harness.valkey import Valkey
from tests.harness.waiting import wait_until
from worker.admission import line
from worker.admission.tickets import Ticket
from worker.store.connections import connect
from worker.store.keys import pool_keys

#: The accounts keep their limits in any ten seconds, so that a run has many windows.
WINDOW_S = 10.0
BURST = 0.05
TENANTS = {"big": 0.7, "x": 0.1, "y": 0.1, "z": 0.1}

FULL = {"requests_per_minute": 600, "tokens_per_minute": 900_000, "streams": 40}


def unequal(number: int = 8) -> dict[str, dict[str, Any]]:
    """Half of the accounts with half of the limits."""
    return {
        f"a{n}": {
            **{name: limit // (1 + n % 2) for name, limit in FULL.items()},
            "refill": "slices",
            "burst": BURST,
        }
        for n in range(number)
    }


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of the limits; the worst is over every window, account and dimension."""

    worst: dict[str, float]
    used_of_strict: dict[str, float]
    grants: int
    calls_per_grant: float
    jain_tenants: float
    jain_keys: float


def accuracy(
    valkey: Valkey,
    seconds: float,
    *,
    hold_s: tuple[float, float],
    prompt: int,
    used: tuple[float, float] = (1.0, 1.0),
) -> Accuracy:
    """Eight processes, eight unequal keys, four tenants with more jobs than fit.

    What share of its estimate a prompt takes is drawn evenly between the ends of `used`.
    """
    accounts = unequal()
    jobs = _submit(valkey, accounts, seconds, prompt)
    load = Load(url=valkey.url, accounts=accounts, hold_s=hold_s, used=used)
    with tempfile.TemporaryDirectory() as folder, connect(valkey.url) as client:
        processes = Processes(Path(folder), load, 8)
        wait_until("all workers ask", lambda: client.zcard(pool_keys(POOL).workers) == 8, 90)
        client.config_resetstat()
        began = _now(client)
        time.sleep(seconds)
        stats: Any = client.info("commandstats")
        left: Any = client.hmget(pool_keys(POOL).tickets, [job for job in jobs if job[-1] == "0"])
        grants = processes.stop()
    assert any(left), "the run was too long for its jobs"
    counted = [grant for grant in grants if began <= grant.at < began + seconds]
    ended = sum(began <= (grant.ended or 0.0) < began + seconds for grant in grants)
    asked = stats["cmdstat_evalsha"]["calls"] - len(counted) - ended
    return Accuracy(
        worst=_worst(grants, accounts),
        used_of_strict=_used(grants, accounts, began, began + seconds),
        grants=len(counted),
        calls_per_grant=asked / len(counted),
        jain_tenants=_jain_tenants(counted),
        jain_keys=_jain(_share_of_key(counted, accounts).values()),
    )


def _submit(valkey: Valkey, accounts: dict[str, Any], seconds: float, prompt: int) -> list[str]:
    requests = sum(account["requests_per_minute"] for account in accounts.values())
    count = int(1.4 * requests * (seconds + 2 * WINDOW_S) / 60)
    jobs = []
    with connect(valkey.url) as client:
        client.flushall()
        for tenant, share in TENANTS.items():
            ticket = Ticket(
                tenant=tenant, priority="normal", model="m", kind="k", prompt=prompt, cap=1
            )
            # Every tenant has enough for an even share of the whole run.
            for number in range(max(int(count * share), count // 3)):
                jobs.append(f"{tenant}-{number}")
                line.run(client, line.enqueue(POOL, jobs[-1], ticket))
    return jobs


def _worst(grants: list[Grant], accounts: dict[str, Any]) -> dict[str, float]:
    share = WINDOW_S / 60
    worst: dict[str, float] = defaultdict(float)
    for name, limits in accounts.items():
        mine = sorted((grant for grant in grants if grant.key == name), key=lambda g: g.at)
        for dimension, amount in (("requests", _one), ("tokens", _tokens)):
            most = _worst_window(mine, amount)
            limit = limits[f"{dimension}_per_minute"] * share
            worst[dimension] = max(worst[dimension], most / limit)
        worst["streams"] = max(worst["streams"], _most_at_once(mine) / limits["streams"])
    return dict(worst)


def _one(_: Grant) -> float:
    return 1


def _tokens(grant: Grant) -> float:
    return grant.tokens


def _worst_window(grants: list[Grant], amount: Callable[[Grant], float]) -> float:
    most, total, first = 0.0, 0.0, 0
    for grant in grants:
        total += amount(grant)
        while grants[first].at <= grant.at - WINDOW_S + 1e-4:
            total -= amount(grants[first])
            first += 1
        most = max(most, total)
    return most


def _most_at_once(grants: list[Grant]) -> int:
    steps = [(grant.at, 1) for grant in grants]
    steps += [(grant.ended, -1) for grant in grants if grant.ended is not None]
    most = open_now = 0
    for _, step in sorted(steps):
        open_now += step
        most = max(most, open_now)
    return most


def _used(
    grants: list[Grant], accounts: dict[str, Any], since: float, until: float
) -> dict[str, float]:
    """Of what the strict setting allows: the limits less the burst."""
    inside = [grant for grant in grants if since <= grant.at < until]
    minutes = (until - since) / 60 * (1 - BURST)
    requests = sum(limits["requests_per_minute"] for limits in accounts.values())
    tokens = sum(limits["tokens_per_minute"] for limits in accounts.values())
    return {
        "requests": len(inside) / (requests * minutes),
        "tokens": sum(map(_tokens, inside)) / (tokens * minutes),
    }


def _now(client: redis.Redis) -> float:
    seconds, micros = client.time()
    return float(seconds + micros / 1e6)


def _jain_tenants(grants: list[Grant]) -> float:
    tokens: Counter[str] = Counter()
    for grant in grants:
        tokens[grant.job.partition("-")[0]] += grant.reserved
    return _jain(tokens.values())


def _share_of_key(grants: list[Grant], accounts: dict[str, Any]) -> dict[str, float]:
    count = Counter(grant.key for grant in grants)
    return {name: count[name] / limits["requests_per_minute"] for name, limits in accounts.items()}


def _jain(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) ** 2 / (len(found) * sum(value**2 for value in found))
