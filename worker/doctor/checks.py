"""What must be true of the servers and settings before jobs are safe, and what to do if it is not.

`examine` looks at everything and never raises. At a worker's start the same findings are logged;
only what makes the product wrong, not merely fragile, keeps it from starting.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
import redis
import structlog

from settings.environment import ignored
from settings.model import Settings
from worker.doctor import lines
from worker.doctor.probe import alive
from worker.store.connections import connect, shown
from worker.store.faults import words_of

#: The oldest that can append to a log without making a deleted one anew. Every Valkey can.
MINIMUM = (6, 2)
#: Leases live on the server's clock; only an expiry given in wall-clock time needs ours to agree.
CLOCK_SKEW_S = 2.0
#: A store fuller than this is reported before it refuses jobs.
FULL_SHARE = 0.9

#: What a worker that starts has told or knows already.
_NOT_NEWS = frozenset({"keys", "out_of_use", "reachable", "waiting", "workers"})

_log = structlog.get_logger()


class Level(StrEnum):
    OK = "ok"
    #: It works, and can lose or keep waiting what it need not.
    WARNING = "warning"
    #: Jobs can be lost.
    PROBLEM = "problem"
    #: It can not work.
    FATAL = "fatal"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """`remedy` is what to do, unless it is ok."""

    check: str
    level: Level
    says: str
    remedy: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Every check there is, in a fixed order."""
    found = [*_environment(), *_keys(settings)]
    urls = {"redis": settings.redis_url, "broker": settings.broker_url}
    urls |= {"results": settings.result_url}
    seen: set[str] = set()
    for name, url in urls.items():
        if url is not None and url not in seen:
            seen.add(url)
            found += _server(name, url, settings)
    return found


def at_start(settings: Settings) -> None:
    """Log what a worker should not start without being told. Raises SystemExit for what is fatal. A
    server that does not answer yet is waited for elsewhere."""
    for finding in examine(settings):
        if finding.check in _NOT_NEWS:
            continue
        if finding.level in (Level.PROBLEM, Level.WARNING):
            _log.warning(
                f"doctor.{finding.check}",
                level=finding.level,
                says=finding.says,
                remedy=finding.remedy,
            )
        elif finding.level is Level.FATAL:
            raise SystemExit(f"longstream: {finding.says}: {finding.remedy}")


def _environment() -> Iterator[Finding]:
    for line in ignored(os.environ):
        yield Finding("environment", Level.WARNING, line, "correct its name, or unset it")


def _keys(settings: Settings) -> Iterator[Finding]:
    if not settings.pools:
        yield Finding(
            "keys",
            Level.FATAL,
            "no API key is configured",
            "set OPENAI_API_KEY and OPENAI_BASE_URL, or define [pools] in longstream.toml",
        )
        return
    aliases = [key.alias for pool in settings.pools.values() for key in pool.keys]
    if settings.simulated:
        yield Finding(
            "keys",
            Level.WARNING,
            "every answer comes from the simulator",
            "configure an API key; `longstream keys check` tries it",
        )
    else:
        yield Finding("keys", Level.OK, f"{len(aliases)} configured: {', '.join(aliases)}")


def _server(name: str, url: str, settings: Settings) -> Iterator[Finding]:
    try:
        with connect(url) as client:
            client.ping()
            yield Finding("reachable", Level.OK, f"{name}: {shown(url)} answers")
            for check in _CHECKS if name == "redis" else _BROKER_CHECKS:
                yield from _guarded(check, client, settings)
    except (redis.RedisError, OSError) as error:
        yield Finding(
            "reachable",
            Level.FATAL,
            f"{name}: {shown(url)} does not answer ({type(error).__name__})",
            "start it, or correct its URL in the settings",
        )


_Check = Callable[[redis.Redis, Settings], Iterator[Finding]]


def _guarded(check: _Check, client: redis.Redis, settings: Settings) -> Iterator[Finding]:
    """A server that forbids a question is not a broken one."""
    try:
        yield from check(client, settings)
    except (redis.ResponseError, KeyError, ValueError) as error:
        # Providers of Redis forbid the question, or leave things out of the answer.
        name, what = check.__name__.strip("_"), words_of(error)
        yield Finding(name, Level.WARNING, f"the server does not say: {what}", "ask its operator")


def _version(client: redis.Redis, _: Settings) -> Iterator[Finding]:
    info: Any = client.info("server")
    if "valkey_version" in info:
        yield Finding("version", Level.OK, f"Valkey {info['valkey_version']}")
        return
    version = str(info["redis_version"])
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    least = ".".join(map(str, MINIMUM))
    if numbers < MINIMUM:
        yield Finding(
            "version",
            Level.FATAL,
            f"Redis {version} is too old: before {least} a deleted log would be made anew",
            f"use Redis {least} or later, or Valkey",
        )
    else:
        yield Finding("version", Level.OK, f"Redis {version}")


def _eviction(client: redis.Redis, _: Settings) -> Iterator[Finding]:
    memory: Any = client.info("memory")
    policy, limit = str(memory["maxmemory_policy"]), int(memory["maxmemory"])
    if policy == "noeviction" or policy.startswith("volatile-"):
        # Only keys with a TTL can be evicted then, and no job has one before its end.
        level = Level.OK if policy == "noeviction" else Level.WARNING
        says = f"the eviction policy is {policy}"
        yield Finding("eviction", level, says, "" if level is Level.OK else _EVICTION)
    else:
        yield Finding(
            "eviction",
            Level.PROBLEM,
            f"the eviction policy {policy} can delete live jobs",
            _EVICTION,
        )
    used = int(memory["used_memory"])
    if limit and used > FULL_SHARE * limit:
        says = f"{used / limit:.0%} of its memory is used; when it is full, submits fail"
        yield Finding("memory", Level.WARNING, says, "raise maxmemory, or shorten retention.log_s")


_EVICTION = "set maxmemory-policy noeviction"


def _persistence(client: redis.Redis, _: Settings) -> Iterator[Finding]:
    info: Any = client.info("persistence")
    if info["aof_enabled"]:
        if info.get("aof_last_write_status", "ok") != "ok":
            yield Finding(
                "persistence", Level.PROBLEM, "its last append-only write failed", "free its disk"
            )
            return
        yield Finding("persistence", Level.OK, "append-only file")
        return
    yield Finding(
        "persistence",
        Level.PROBLEM,
        "there is no append-only file: a restart loses every job since the last snapshot",
        "set appendonly yes and appendfsync everysec",
    )


def _role(client: redis.Redis, _: Settings) -> Iterator[Finding]:
    info: Any = client.info("replication")
    if info["role"] == "slave":
        yield Finding(
            "role",
            Level.PROBLEM,
            "it is a replica and refuses writes",
            "point the URL at its primary",
        )
    else:
        yield Finding("role", Level.OK, f"primary, {info.get('connected_slaves', 0)} replicas")


def _clock(client: redis.Redis, _: Settings) -> Iterator[Finding]:
    before = time.time()
    seconds, micros = client.time()
    skew = abs(seconds + micros / 1e6 - (before + time.time()) / 2)
    if skew > CLOCK_SKEW_S:
        yield Finding(
            "clock",
            Level.WARNING,
            f"its clock and this host's differ by {skew:.1f} s: `expires` of a task is off by that",
            "run a time service on both",
        )
    else:
        yield Finding("clock", Level.OK, f"within {CLOCK_SKEW_S:.0f} s of this host's")


def _workers(client: redis.Redis, settings: Settings) -> Iterator[Finding]:
    names = alive(client, settings)
    if names:
        yield Finding("workers", Level.OK, f"{len(names)} alive")
    else:
        yield Finding(
            "workers", Level.WARNING, "no worker was heard of lately", "start `longstream worker`"
        )


def _out_of_use(client: redis.Redis, settings: Settings) -> Iterator[Finding]:
    for says, remedy in lines.out_of_use(client, settings):
        yield Finding("out_of_use", Level.WARNING, says, remedy)


def _waiting(client: redis.Redis, settings: Settings) -> Iterator[Finding]:
    for says in lines.waiting(client, settings):
        yield Finding("waiting", Level.OK, says)


_BROKER_CHECKS: tuple[_Check, ...] = (_version, _eviction, _role)
_CHECKS: tuple[_Check, ...] = (
    *(_version, _eviction, _persistence, _role, _clock),
    *(_workers, _out_of_use, _waiting),
)
