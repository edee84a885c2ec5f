"""Tokens: what callers of the gateway show, and what each of them allows.

A token's text is shown once, when it is made. Redis holds its SHA-256: the secret part has 256
random bits, so nothing slower is needed against guessing. One that has expired is as good as none,
and goes with the next look at the list.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from enum import StrEnum
from typing import Any

import msgspec
import redis

from settings.errors import LongstreamError
from worker.store.connections import now_ms
from worker.store.keys import TOKENS

_PREFIX = "ls"
_ID_BYTES, _SECRET_BYTES = 6, 32
#: More than that is no list that anybody keeps in order.
_MOST = 10_000


class Scope(StrEnum):
    """What a token allows."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    #: Everything, of every tenant.
    ADMIN = "admin"


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`digest` is the SHA-256 of the secret. `tenant` empty: of all tenants; `job`: of this alone.
    `expires_ms` 0: never."""

    id: str
    digest: str
    name: str
    scopes: tuple[Scope, ...]
    tenant: str = ""
    job: str = ""
    created_ms: int = 0
    expires_ms: int = 0

    def expired(self, now: float) -> bool:
        return 0 < self.expires_ms <= now


def create(
    client: redis.Redis,
    name: str,
    scopes: tuple[Scope, ...],
    *,
    tenant: str = "",
    job: str = "",
    expires_s: float | None = None,
) -> tuple[Token, str]:
    """A new token, and the text that nobody will ever see again.

    Raises LongstreamError when there are too many.
    """
    if len(listed(client)) >= _MOST:
        raise LongstreamError(f"there are {_MOST} tokens: revoke some with `longstream token`")
    now, secret = now_ms(client), secrets.token_urlsafe(_SECRET_BYTES)
    token = Token(
        id=secrets.token_hex(_ID_BYTES),
        digest=_digest(secret),
        name=name,
        scopes=scopes,
        tenant=tenant,
        job=job,
        created_ms=now,
        expires_ms=0 if expires_s is None else now + int(expires_s * 1000),
    )
    client.hset(TOKENS, token.id, msgspec.json.encode(token))
    return token, f"{_PREFIX}_{token.id}_{secret}"


def listed(client: redis.Redis) -> list[Token]:
    """All that are valid, oldest first. Those that have expired are removed."""
    found: Any = client.hgetall(TOKENS)
    tokens = [msgspec.json.decode(stored, type=Token) for stored in found.values()]
    now = now_ms(client)
    if gone := [token.id for token in tokens if token.expired(now)]:
        client.hdel(TOKENS, *gone)
    valid = [token for token in tokens if not token.expired(now)]
    return sorted(valid, key=lambda token: (token.created_ms, token.id))


def revoke(client: redis.Redis, token_id: str) -> bool:
    """False when there is no such token."""
    return bool(client.hdel(TOKENS, token_id))


def parts_of(text: str) -> tuple[str, str] | None:
    """The id and the secret of a token's text; None when it is none."""
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    if prefix != _PREFIX or len(token_id) != 2 * _ID_BYTES or not secret or not text.isascii():
        return None
    return token_id, secret


def stored_token(stored: bytes | None) -> Token | None:
    """The token as Redis has it; None when there is none, or it has expired."""
    token = None if stored is None else msgspec.json.decode(stored, type=Token)
    return None if token is None or token.expired(time.time() * 1000) else token


def matching(stored: bytes | None, secret: str) -> Token | None:
    """The token that is stored, if this is its secret. Takes as long whichever part is wrong."""
    token = stored_token(stored)
    expected = token.digest if token is not None else _digest("")
    same = hmac.compare_digest(expected.encode(), _digest(secret).encode())
    return token if same else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
