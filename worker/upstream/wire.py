"""Connections of the HTTP library, made by us so that a body can be had without it.

The library connects, tunnels through proxies, begins TLS, sends the request and reads the head, all
through a `Link`. Then a chunked body goes straight from the socket to who takes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any

import httpcore

from worker.upstream.link import Link


class Wire(httpcore.AsyncNetworkBackend):
    """Opens connections for the HTTP library.

    `fresh` holds the tasks with a new connection on which they have not written yet. Cancelled just
    then, the library forgets the connection in its pool, where it takes a place for ever.
    """

    def __init__(self) -> None:
        self.fresh: set[asyncio.Task[Any]] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Link:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, link = await loop.create_connection(
                    partial(Link, self.fresh),
                    host,
                    port,
                    happy_eyeballs_delay=None if _is_address(host) else 0.25,
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for option in socket_options or ():
            link.transport.get_extra_info("socket").setsockopt(*option)
        link.is_fresh()
        return link

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _is_address(host: str) -> bool:
    """There is nothing to race for then; and a race that is cancelled may forget a socket."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
