"""What a pool has to offer, as the scripts read it: its keys, and the limits of their accounts.

Every worker sends this with each request for work, so a change of the configuration holds from the
next grant on, and nothing of it has to be kept in step in the store. No secret is in it: a key is
its alias and a fingerprint, by which a replaced secret is told from a bad one.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import get_args

import msgspec

from settings.accounts import Accounting
from settings.model import ROLLING_DAY, Account, Key, Limits, Pool
from worker.admission.buckets import room

_MINUTE_MS = 60_000
#: `slices` keeps a limit in every piece of this length.
_SLICE_MS = 10_000

_FINGERPRINT_CHARS = 12

#: As offers.lua counts them.
_MODES: tuple[Accounting, ...] = get_args(Accounting)


class Scope(msgspec.Struct, frozen=True):
    """Limits in units per `period` (ms); 0 for none. `models` is a Lua pattern, "" for all."""

    name: str
    models: str
    streams: int
    requests: float
    tokens: float
    day: int
    burst: float
    period: float


class Owner(msgspec.Struct, frozen=True):
    """One account: its own limits first, then those of its families."""

    name: str
    mode: Accounting
    #: How far its day is ahead of UTC, in ms; None: the day is the last 24 hours, whenever.
    day_ms: int | None
    scopes: tuple[Scope, ...]


class Offers(msgspec.Struct, frozen=True):
    #: The keys as (alias, fingerprint, account).
    keys: tuple[tuple[str, str, str], ...]
    accounts: tuple[Owner, ...]


def packed(pool: Pool, accounts: Mapping[str, Account]) -> tuple[str | bytes | int, ...]:
    """The arguments the scripts take; see offers.lua."""
    return _offers(pool, *_owners(pool, accounts))[1]


def offered(pool: Pool, accounts: Mapping[str, Account]) -> Offers:
    """The same as values."""
    return _offers(pool, *_owners(pool, accounts))[0]


def fingerprint(key: Key) -> str:
    """Tells one secret with its URL from another; gives neither away."""
    whole = f"{key.base_url} {key.secret.get_secret_value()}"
    return hashlib.sha256(whole.encode()).hexdigest()[:_FINGERPRINT_CHARS]


def _owners(
    pool: Pool, accounts: Mapping[str, Account]
) -> tuple[tuple[Account, ...], tuple[int | None, ...]]:
    named = dict.fromkeys(key.account for key in pool.keys)
    owners = tuple(accounts.get(name) or Account(name=name) for name in named)
    return owners, tuple(_day_ms(owner.day_zone) for owner in owners)


@lru_cache(64)
def _offers(
    pool: Pool, owners: tuple[Account, ...], day_ms: tuple[int | None, ...]
) -> tuple[Offers, tuple[str | bytes | int, ...]]:
    offers = Offers(
        keys=tuple((key.alias, fingerprint(key), key.account) for key in pool.keys),
        accounts=tuple(_owner(*pair) for pair in zip(owners, day_ms, strict=True)),
    )
    return offers, _arguments(offers)


def _arguments(offers: Offers) -> tuple[str | bytes | int, ...]:
    scopes = [(owner, scope) for owner in offers.accounts for scope in owner.scopes]
    first: dict[str, int] = {}
    for at, (owner, _) in enumerate(scopes, 1):
        first.setdefault(owner.name, at)
    count = {owner.name: len(owner.scopes) for owner in offers.accounts}
    places = [place for *_, name in offers.keys for place in (first[name], count[name])]
    hot = [part for _, scope in scopes for part in (scope.streams, room(scope.burst, scope.period))]
    rare = ([print_ for _, print_, _ in offers.keys], [scope.models for _, scope in scopes])
    return (
        len(offers.keys),
        len(scopes),
        *(alias for alias, *_ in offers.keys),
        *(scope.name for _, scope in scopes),
        struct.pack(f"<{len(places)}d", *places),
        struct.pack(f"<{len(hot)}d", *hot),
        b"".join(_numbers(owner, scope) for owner, scope in scopes),
        msgspec.json.encode(rare),
    )


def _numbers(owner: Owner, scope: Scope) -> bytes:
    return struct.pack(
        "<9d",
        scope.streams,
        scope.requests,
        scope.tokens,
        scope.day,
        scope.burst,
        scope.period,
        _MODES.index(owner.mode),
        owner.day_ms or 0,
        owner.day_ms is None,
    )


def _owner(account: Account, day_ms: int | None) -> Owner:
    families = (
        _scope(f"{account.name}/{family.models}", lua_pattern(family.models), family, account)
        for family in account.families
    )
    own = _scope(account.name, "", account, account)
    return Owner(account.name, account.accounting, day_ms, (own, *families))


def _scope(name: str, models: str, limits: Limits, account: Account) -> Scope:
    period = _SLICE_MS if account.refill == "slices" else _MINUTE_MS
    share = period / _MINUTE_MS
    return Scope(
        name=name,
        models=models,
        streams=limits.streams or 0,
        requests=(limits.requests_per_minute or 0) * share,
        tokens=(limits.tokens_per_minute or 0) * share,
        day=limits.requests_per_day or 0,
        burst=1.0 if account.refill == "bucket" else account.burst,
        period=period,
    )


def _day_ms(zone: str) -> int | None:
    """How far the zone is ahead of UTC now; None where the day has no beginning."""
    if zone == ROLLING_DAY:
        return None
    if zone == "UTC":
        return 0
    from zoneinfo import ZoneInfo

    offset = datetime.now(ZoneInfo(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() * 1000)


def lua_pattern(shell: str) -> str:
    """A shell pattern (`*`, `?`, `[ab]`, `[!ab]`) as an anchored Lua pattern."""
    parts, at = [], 0
    while at < len(shell):
        char = shell[at]
        end = shell.find("]", at + 2) if char == "[" else -1
        if end > 0:
            inner = shell[at + 1 : end]
            negated = inner.startswith("!")
            inner = inner[negated:].replace("%", "%%").replace("^", "%^").replace("]", "%]")
            parts.append(f"[{'^' if negated else ''}{inner}]")
            at = end
        elif char in "*?":
            parts.append(".*" if char == "*" else ".")
        else:
            parts.append(char if char.isalnum() else f"%{char}")
        at += 1
    return f"^{''.join(parts)}$"
