"""Connections on an event loop whose use can be cancelled at any moment.

The client bounds what it sends by `asyncio.wait_for`, which before Python 3.12 forgets a cancel
that comes when all is sent: whoever was cancelled went on as if nothing had been said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection


class _Cancellable(AbstractConnection):
    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        limit_s, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await super().send_packed_command(command, check_health)
        except TimeoutError:
            raise redis.TimeoutError("Timeout writing to socket") from None
        finally:
            self.socket_timeout = limit_s


def cancellable(client: Redis) -> Redis:
    """The same client, before it has connected to anything."""
    pool: Any = client.connection_pool
    kind = pool.connection_class
    pool.connection_class = type(f"Cancellable{kind.__name__}", (_Cancellable, kind), {})
    return client
