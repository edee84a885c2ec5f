"""What the limits of a pool look like from outside, for people and for programs.

Only `enable` changes anything. The numbers are those the scripts decide by, read in one pipeline a
pool, so they belong to one moment but for the time the reading takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import redis

from settings.model import Account, Pool, Settings
from worker.admission.buckets import Bucket
from worker.admission.offers import Scope, offered
from worker.admission.states import ScopeState, rolling_day, scope_state
from worker.store.keys import PoolKeys, pool_keys

#: As spent.lua has the pieces, rests.lua the end of a rest, and limits.lua the regrowth.
_PIECE_MS, _PIECES = 300_000, 12
_REGROWTH = 0.02
_FOR_EVER_MS = 2**53 - 1
DAY_MS = 86_400_000


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit: how much of it is free now, and the limit itself; lower than configured if so, or
    learned where none was."""

    dimension: str
    left: float
    limit: float
    configured: float | None


class Rest(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is out of use; `left_s` None: until someone repairs it."""

    what: str
    cause: str
    left_s: float | None


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """An account, or a family of its models."""

    pool: str
    account: str
    keys: tuple[str, ...]
    #: The account whose limits hold instead: the provider names one organisation for both.
    merged_into: str | None
    streams: int
    streams_limit: int | None
    limits: tuple[Limit, ...]
    rests: tuple[Rest, ...]
    tokens_last_hour: int
    refusals_last_hour: int


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """What one pipeline read of a pool."""

    now: float
    buckets: dict[str, bytes]
    rests: dict[str, dict[str, Any]]
    learned: dict[str, dict[str, list[float]]]
    spent: dict[str, int]
    merged: dict[str, str]


def accounts(client: redis.Redis, settings: Settings) -> list[AccountView]:
    """Every account and family of every pool, in the order of the settings."""
    return [
        view
        for pool in settings.pools.values()
        for view in _views(pool, settings.accounts, _read(client, pool_keys(pool.name)))
    ]


def enable(client: redis.Redis, settings: Settings, alias: str) -> bool:
    """Use a key and its account again, whatever was heard of them. False: nothing rested."""
    for pool in settings.pools.values():
        for key in pool.keys:
            if key.alias == alias:
                keys = pool_keys(pool.name)
                names = (f"key {alias}", f"account {key.account}")
                gone = int(client.hdel(keys.rests, *names))
                client.lpush(keys.nudge, "enable")
                return gone > 0
    return False


def _read(client: redis.Redis, keys: PoolKeys) -> PoolState:
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.hget(keys.epoch, "merged")
    for name in (keys.buckets, keys.rests, keys.learned, keys.spent):
        pipeline.hgetall(name)
    (seconds, micros), merged, buckets, *found = pipeline.execute()
    rests, learned, spent = (
        {name.decode(): msgspec.json.decode(value) for name, value in raw.items()} for raw in found
    )
    return PoolState(
        now=seconds * 1000 + micros / 1000,
        buckets={name.decode(): value for name, value in buckets.items()},
        rests=rests,
        learned=learned,
        spent=spent,
        merged=msgspec.json.decode(merged) if merged else {},
    )


def _views(pool: Pool, accounts: Mapping[str, Account], state: PoolState) -> list[AccountView]:
    offers = offered(pool, accounts)
    return [
        AccountView(
            pool=pool.name,
            account=scope.name,
            keys=tuple(
                alias
                for alias, _, account in offers.keys
                if state.merged.get(account, account) == owner.name
            ),
            merged_into=state.merged.get(owner.name),
            streams=scope_state(state.buckets.get(scope.name)).used,
            streams_limit=scope.streams or None,
            limits=tuple(_limits(scope, state, owner.day_ms)),
            rests=tuple(_rests(pool, owner.name, state)) if scope is owner.scopes[0] else (),
            tokens_last_hour=_spent(scope.name, "tokens", state),
            refusals_last_hour=_spent(scope.name, "refused", state),
        )
        for owner in offers.accounts
        for scope in owner.scopes
    ]


def _limits(scope: Scope, state: PoolState, day_ms: int | None) -> Iterator[Limit]:
    numbers = scope_state(state.buckets.get(scope.name))
    share = 60_000 / scope.period
    for dimension, configured, limit, bucket in _buckets(scope, state, numbers):
        yield Limit(
            dimension=f"{dimension}/min",
            left=bucket.left(state.now) * share,
            limit=limit * share,
            configured=configured * share or None,
        )
    if scope.day:
        left = max(0, scope.day - _used_today(scope, state, numbers, day_ms))
        yield Limit(dimension="requests/day", left=left, limit=scope.day, configured=scope.day)


def _buckets(
    scope: Scope, state: PoolState, numbers: ScopeState
) -> Iterator[tuple[str, float, float, Bucket]]:
    learned = state.learned.get(scope.name, {})
    for dimension, configured, tat, window in (
        ("requests", scope.requests, numbers.requests_tat, numbers.requests),
        ("tokens", scope.tokens, numbers.tokens_tat, numbers.tokens),
    ):
        limit = configured
        if dimension in learned:
            limit = min(_grown(learned[dimension], state), configured or math.inf)
        if limit:
            bucket = Bucket(limit, scope.burst, scope.period, tat, window.piece, window.pieces)
            yield dimension, configured, limit, bucket


def _used_today(scope: Scope, state: PoolState, numbers: ScopeState, day_ms: int | None) -> float:
    if day_ms is None:
        window = rolling_day(state.buckets.get(f"day {scope.name}"))
        day = Bucket(scope.day, period=DAY_MS, piece=window.piece, pieces=window.pieces)
        return scope.day - day.left(state.now)
    return numbers.today if numbers.day == int((state.now + day_ms) // DAY_MS) else 0


def _grown(learned: list[float], state: PoolState) -> float:
    """What a learned limit is by now."""
    lower, at = learned
    return lower * (1 + _REGROWTH * (state.now - at) / 60_000)


def _rests(pool: Pool, account: str, state: PoolState) -> list[Rest]:
    keys = {f"key {key.alias}" for key in pool.keys if key.account == account}
    mine = {*keys, f"account {account}"}
    return [
        Rest(
            what=name,
            cause=rest["cause"],
            left_s=None
            if rest["until"] >= _FOR_EVER_MS
            else round((rest["until"] - state.now) / 1000, 1),
        )
        for name, rest in sorted(state.rests.items())
        if (name in mine or name.startswith(f"model {account} ")) and rest["until"] > state.now
    ]


def _spent(account: str, quantity: str, state: PoolState) -> int:
    piece = int(state.now // _PIECE_MS)
    fields = (f"{account}|{quantity}|{number}" for number in range(piece - _PIECES + 1, piece + 1))
    return sum(state.spent.get(field, 0) for field in fields)
