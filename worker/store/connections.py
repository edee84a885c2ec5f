"""Connections to Redis or Valkey, all made the same way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from settings.errors import LongstreamError
from worker.store.faults import forbids, words_of

if TYPE_CHECKING:
    # Loaded by who connects on an event loop: no command that reads a job does.
    from redis.asyncio import Redis as AsyncRedis

#: Must exceed every blocking read (BLOCK_S), or a healthy wait would look like a dead peer.
SOCKET_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 5.0
#: For work that blocks on nothing: someone waits for it.
SHORT_TIMEOUT_S = 5.0
#: Longest time one blocking command may wait on the server.
BLOCK_S = 10.0


class StoreUnreachable(LongstreamError):
    """Redis does not answer."""


def _options(url: str, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        # One reply shape for all servers, and the one fakeredis speaks.
        "protocol": 2,
        "socket_timeout": timeout_s,
        "health_check_interval": 0,
        # To say which library calls takes two calls more, and a look into its metadata for each
        # connection, which is a millisecond.
        "driver_info": None,
    }
    if urlsplit(url).scheme != "unix":
        options |= {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_keepalive": True}
    return options


def connect(url: str, timeout_s: float = SOCKET_TIMEOUT_S) -> redis.Redis:
    """A client that reports the first fault; who calls it decides about trying again."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **_options(url, timeout_s))


def connect_async(url: str) -> AsyncRedis:
    """As `connect`, for one event loop."""
    return _asynchronous(url, _options(url, SOCKET_TIMEOUT_S))


def tracking_client(url: str) -> AsyncRedis:
    """As `connect_async`, for connections on which the server pushes what has changed."""
    options = _options(url, SOCKET_TIMEOUT_S) | {
        "protocol": 3,
        # Who waits for a push waits as long as it takes.
        "socket_timeout": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
    return _asynchronous(url, options)


def _asynchronous(url: str, options: dict[str, Any]) -> AsyncRedis:
    from redis.asyncio.retry import Retry as AsyncRetry

    from worker.store.cancellable import cancellable

    retry = AsyncRetry(NoBackoff(), 0)
    return cancellable(redis.asyncio.Redis.from_url(url, retry=retry, **options))


def now_ms(client: redis.Redis) -> int:
    """The server's time."""
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def shown(url: str) -> str:
    """The URL without its credentials, for messages."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    where = parts.hostname or "localhost"
    return f"{parts.scheme}://{where}:{parts.port or 6379}{parts.path}"


def require(client: redis.Redis, url: str) -> None:
    """Raises StoreUnreachable, naming the server and the way out, unless it answers."""
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        raise _unreachable(url, error) from error


@contextmanager
def opened(url: str) -> Iterator[redis.Redis]:
    """A client for a short piece of work. Raises StoreUnreachable when the server is away."""
    with connect(url, SHORT_TIMEOUT_S) as client:
        try:
            yield client
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise _unreachable(url, error) from error
        except redis.ResponseError as error:
            if not forbids(error):
                raise
            raise StoreUnreachable(
                f"Redis at {shown(url)} does not let our user in: {words_of(error)}; "
                "allow it scripts and commands on ls:* with ACL SETUSER"
            ) from error


def _unreachable(url: str, error: Exception) -> StoreUnreachable:
    if isinstance(error, redis.AuthenticationError):
        return StoreUnreachable(
            f"Redis at {shown(url)} refuses the credentials: put them into the URL, "
            "as redis://:PASSWORD@HOST:PORT"
        )
    return StoreUnreachable(
        f"cannot reach Redis at {shown(url)}: start it or correct LONGSTREAM_REDIS_URL; "
        "unset it to use the embedded server"
    )
