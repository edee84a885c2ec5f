"""The bodies of requests: how large one may be, and how long it may take to arrive.

Of each caller only so much is held at once. So memory is bounded by the number of callers, and slow
uploads of one keep no other out.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.requests import ClientDisconnect, Request

from tasks.gateway.problems import Problem

#: How long a body may take to arrive, in seconds.
_BODY_S = 30.0
#: Bodies of the largest size that one caller may have on their way. Small ones never come near it.
_AT_ONCE = 4
_NOBODY = "nobody"


class Bodies:
    """What is held of bodies that have not arrived, by caller."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: Counter[str] = Counter()

    async def received(self, request: Request, limit: int | None = None) -> bytes:
        """The body, if it is not too large and comes in time; no more than that is ever held."""
        limit = self._most_bytes if limit is None else limit
        if int(request.headers.get("content-length", "0")) > limit:
            raise _too_large(limit)
        grant = getattr(request.state, "grant", None)
        caller = _NOBODY if grant is None else grant.name
        # One block, however many small pieces it comes in.
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_S):
                async for part in request.stream():
                    if len(body) + len(part) > limit:
                        raise _too_large(limit)
                    self._take(caller, len(part))
                    body += part
        except TimeoutError:
            raise Problem(
                "slow_request",
                f"the body did not arrive in {_BODY_S:.0f} s",
                headers={"Connection": "close"},
            ) from None
        except ClientDisconnect:
            raise Problem("malformed", "the body was cut") from None
        finally:
            self._held[caller] -= len(body)
            # Callers come and go; none of them stays here with nothing.
            if not self._held[caller]:
                del self._held[caller]
        return bytes(body)

    def _take(self, caller: str, size: int) -> None:
        """Raises Problem when that is more than one caller may have."""
        if self._held[caller] + size > _AT_ONCE * self._most_bytes:
            raise Problem(
                "too_much_at_once",
                "wait until some of its requests have arrived",
                headers={"Connection": "close", "Retry-After": "1"},
            )
        self._held[caller] += size


def _too_large(limit: int) -> Problem:
    # What is still to come is not read, so nothing can follow on this connection.
    return Problem(
        "too_large", f"a body may have {limit} bytes at most", headers={"Connection": "close"}
    )
