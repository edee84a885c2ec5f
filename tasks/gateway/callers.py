"""Who calls: from a token to a grant. Refusals are counted, and too many are told to wait.

A token comes in `Authorization: Bearer`, or in the cookie the sign-in page sets, since a browser's
EventSource can send no header of its own. A valid token is never refused for what others at the
same address did: behind one proxy, that would be everybody.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from tasks.gateway.access import LOCAL, Grant, grant_of
from tasks.gateway.frames import Frame
from tasks.gateway.problems import Problem, unreachable
from tasks.gateway.tokens import matching, parts_of, stored_token
from worker.log.hub import Hub
from worker.store.keys import TOKENS

COOKIE = "longstream_token"

#: Refused tokens of one address in a minute, before it is told to wait.
_REFUSALS, _PER_S = 10, 60.0
#: Addresses that are remembered.
_REMEMBERED = 10_000
_PATIENCE_S = 5.0


class Callers:
    """`open_locally`: who comes without a token may do everything."""

    def __init__(self, *, open_locally: bool) -> None:
        self._open = open_locally
        #: Address to when its latest refusals were.
        self._refusals: OrderedDict[str, list[float]] = OrderedDict()

    async def grant(self, scope: Scope, headers: Headers, hub: Hub[Frame]) -> Grant | None:
        """None for nobody in particular. Raises Problem for a token that is not valid."""
        if (header := headers.get("authorization")) is not None:
            kind, _, text = header.partition(" ")
            return await self.require_token(
                scope, text.strip() if kind.lower() == "bearer" else "", hub
            )
        if text := cookie_parser(headers.get("cookie", "")).get(COOKIE, ""):
            grant = await self._of_token(text, hub)
            if grant is not None or not self._open:
                return grant
        return LOCAL if self._open else None

    async def require_token(self, scope: Scope, text: str, hub: Hub[Frame]) -> Grant:
        """Raises Problem."""
        return await self._of_token(text, hub) or self._refused(scope)

    async def _of_token(self, text: str, hub: Hub[Frame]) -> Grant | None:
        parts = parts_of(text)
        if parts is None:
            return None
        token_id, secret = parts
        try:
            async with asyncio.timeout(_PATIENCE_S):
                stored = await hub.command(("HGET", TOKENS, token_id))
        except TimeoutError:
            raise unreachable() from None
        token = matching(stored, secret)
        return None if token is None else grant_of(token)

    def _refused(self, scope: Scope) -> Grant:
        address = (scope.get("client") or ("",))[0]
        now = time.monotonic()
        recent = [at for at in self._refusals.pop(address, []) if now - at < _PER_S]
        if len(recent) >= _REFUSALS:
            self._refusals[address] = recent
            wait_s = int(_PER_S - (now - recent[0])) + 1
            raise Problem("too_many_failures", headers={"Retry-After": str(wait_s)})
        self._refusals[address] = [*recent, now]
        while len(self._refusals) > _REMEMBERED:
            self._refusals.popitem(last=False)
        raise Problem(
            "unauthorized",
            "the token is unknown, expired or revoked",
            headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )


async def valid_tokens(hub: Hub[Frame], ids: list[str]) -> set[str]:
    """Which of these tokens still allow anything."""
    found = await hub.command(("HMGET", TOKENS, *ids))
    return {token.id for stored in found if (token := stored_token(stored)) is not None}
