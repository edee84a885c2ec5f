"""What a pool has to offer, as the scripts read it: its keys, and the limits of their accounts.

Every worker sends this with each request for work, so a change of the configuration holds from the
next grant on, and nothing of it has to be kept in step in the store. No secret is in it: a key is
its alias and a fingerprint, by which a replaced secret is told from a bad one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from settings.model import Account, Key, Limits, Pool

_MINUTE_MS = 60_000
#: `slices` keeps a limit in every piece of this length.
_SLICE_MS = 10_000

_FINGERPRINT_CHARS = 12


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """Limits in units per `period` (ms); 0 for none. `models` is a Lua pattern, "" for all."""

    name: str
    models: str
    streams: int
    requests: float
    tokens: float
    day: int
    burst: float
    period: float


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """One key of the pool."""

    alias: str
    print: str
    account: str


class Owner(msgspec.Struct, frozen=True, array_like=True):
    """One account: its own limits first, then those of its families."""

    name: str
    mode: str
    day_ms: int
    scopes: tuple[Scope, ...]


class Offers(msgspec.Struct, frozen=True, array_like=True):
    keys: tuple[Offer, ...]
    accounts: tuple[Owner, ...]


def packed(pool: Pool, accounts: Mapping[str, Account]) -> bytes:
    """The JSON the scripts take."""
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
) -> tuple[tuple[Account, ...], tuple[int, ...]]:
    named = dict.fromkeys(key.account for key in pool.keys)
    owners = tuple(accounts.get(name) or Account(name=name) for name in named)
    return owners, tuple(_day_ms(owner.day_zone) for owner in owners)


@lru_cache(64)
def _offers(
    pool: Pool, owners: tuple[Account, ...], day_ms: tuple[int, ...]
) -> tuple[Offers, bytes]:
    offers = Offers(
        keys=tuple(Offer(key.alias, fingerprint(key), key.account) for key in pool.keys),
        accounts=tuple(_owner(*pair) for pair in zip(owners, day_ms, strict=True)),
    )
    return offers, msgspec.json.encode(offers)


def _owner(account: Account, day_ms: int) -> Owner:
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


def _day_ms(zone: str) -> int:
    """How far the zone is ahead of UTC now."""
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
