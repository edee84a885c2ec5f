"""What a grant costs the server, beside the limiters people use."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import redis

from settings.model import Account, WorkerSettings
from tests.harness.lines import Line
from tests.harness.valkey import Valkey
from worker.admission.line import Patience
from worker.store.connections import connect

TOKENS = 1_500
#: High enough that nothing is ever refused, and the same for every contender.
TOKENS_PER_MINUTE = 10**9

#: Grants of one piece of a run.
PIECE = 64

#: One acquire; counts as one grant.
Acquire = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one grant. `server_us` is what the server counts, `batch` how many one call asked for."""

    name: str
    keys: int
    batch: int
    server_us: float
    grants_per_s: float


def ours(valkey: Valkey, keys: int, batch: int, grants: int) -> Cost:
    """Requests, tokens and streams of every key; one process asks for `batch` jobs at a time."""
    limits: Any = {
        "streams": 10**6,
        "requests_per_minute": 10**8,
        "tokens_per_minute": TOKENS_PER_MINUTE,
    }
    with connect(valkey.url) as client:
        client.flushall()
        names = [f"a{number}" for number in range(keys)]
        line = Line(client, {name: Account(name=name, **limits) for name in names})
        line.submit(*(f"j{number}" for number in range(grants)), prompt=1_000, cap=500)
        line.patience = Patience.of(WorkerSettings())
        line.epoch = line.ask(slots=0).epoch
        done = 0

        def acquire() -> int:
            nonlocal done
            got = len(line.ask(slots=done + batch).leases)
            done += got
            return got

        return _measured("longstream", keys, batch, client, acquire, grants)


def contenders() -> Iterator[tuple[str, Callable[[Valkey], Acquire] | None]]:
    """The limiters with one key, or None for those that are not installed."""
    for name, make in (
        ("limits", _limits),
        ("pyrate-limiter", _pyrate),
        ("throttled-py", _throttled),
    ):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield name, None
        else:
            yield name, make


def theirs(valkey: Valkey, name: str, make: Callable[[Valkey], Acquire], grants: int) -> Cost:
    """One key, one limit."""
    with connect(valkey.url) as client:
        client.flushall()
        acquire = make(valkey)
        acquire()
        return _measured(name, 1, 1, client, lambda: int(acquire() is None), grants)


def _measured(
    name: str, keys: int, batch: int, client: redis.Redis, acquire: Callable[[], int], grants: int
) -> Cost:
    """Medians over pieces of the run: a machine that is busy elsewhere spoils some, not all."""
    costs, rates, done = [], [], 0
    while done < grants:
        client.config_resetstat()
        piece, began = 0, time.perf_counter()
        while piece < PIECE and done + piece < grants:
            piece += acquire()
        rates.append(piece / (time.perf_counter() - began))
        costs.append(_server_us(client) / piece)
        done += piece
    return Cost(name, keys, batch, statistics.median(costs), statistics.median(rates))


def _server_us(client: redis.Redis) -> float:
    """Time in scripts, or in commands where there are none: what scripts call counts in them."""
    stats: dict[str, Any] = client.info("commandstats")  # type: ignore[assignment]
    ours = {"cmdstat_config|resetstat", "cmdstat_info", "cmdstat_flushall"}
    scripts = ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall")
    in_scripts = sum(float(stats[name]["usec"]) for name in scripts if name in stats)
    if in_scripts:
        return in_scripts
    return sum(float(value["usec"]) for name, value in stats.items() if name not in ours)


def _limits(valkey: Valkey) -> Acquire:
    from limits import RateLimitItemPerMinute, storage, strategies

    path = valkey.url.removeprefix("unix://")
    limiter = strategies.MovingWindowRateLimiter(
        storage.storage_from_string(f"redis+unix://{path}")
    )
    item = RateLimitItemPerMinute(TOKENS_PER_MINUTE)

    def acquire() -> None:
        assert limiter.hit(item, "key", cost=TOKENS)

    return acquire


def _pyrate(valkey: Valkey) -> Acquire:
    from pyrate_limiter import Duration, Limiter, Rate, RedisBucket

    rates = [Rate(TOKENS_PER_MINUTE, Duration.MINUTE)]
    limiter = Limiter(RedisBucket.init(rates, redis.Redis.from_url(valkey.url), "key"))

    def acquire() -> None:
        assert limiter.try_acquire("key", weight=TOKENS)

    return acquire


def _throttled(valkey: Valkey) -> Acquire:
    from throttled import RateLimiterType, Throttled, rate_limiter, store

    throttle = Throttled(
        key="key",
        using=RateLimiterType.GCRA.value,
        quota=rate_limiter.per_min(TOKENS_PER_MINUTE, burst=TOKENS_PER_MINUTE),
        store=store.RedisStore(server=valkey.url),
    )

    def acquire() -> None:
        assert not throttle.limit(cost=TOKENS).limited

    return acquire
