"""What a fault of the store means for whoever meets it.

It passes by itself; or an operator must let us in again; or it concerns the one command, and trying
again will not help. The first two are waited for, and neither says anything about a job.
"""

from __future__ import annotations

import re

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError as RedisConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
    TryAgainError,
)

from settings.errors import LongstreamError

#: Faults that pass, in types.
PASSING = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    ClusterDownError,
    TryAgainError,
    OSError,
)

#: The same, as the server says it in words: it is full, lacks its replicas or its disk, runs a long
#: script, or changes its role.
_SOON = (
    *("OOM", "READONLY", "LOADING", "NOREPLICAS", "MISCONF", "MASTERDOWN", "CLUSTERDOWN"),
    *("TRYAGAIN", "UNBLOCKED", "BUSY "),
)

#: Our user may not do it; inside a script, servers say it in other ways.
_FORBIDDEN = ("NOPERM", "NOAUTH", "ACL failure in script", "The user executing the script")

#: How servers before version 7 wrap what went wrong inside a script.
_IN_SCRIPT = re.compile(r"Error running script \(call to \w+\): (?:@\w+: ?\d+: ?)*-?(?:ERR )?")

_LINE_CHARS = 200


def passes(error: object) -> bool:
    """True when the same command will be answered by and by."""
    if isinstance(error, PASSING):
        return not isinstance(error, AuthenticationError)
    return isinstance(error, ResponseError) and _unwrapped(error).startswith(_SOON)


def forbids(error: object) -> bool:
    """True when the server does not let our user do it."""
    if isinstance(error, (AuthenticationError, NoPermissionError)):
        return True
    return isinstance(error, ResponseError) and _unwrapped(error).startswith(_FORBIDDEN)


def words_of(error: BaseException) -> str:
    """One line for people. A server quotes the arguments of a command it does not know; they are
    left out, and so is all that errors of others say, which may quote anything."""
    if not isinstance(error, (RedisError, OSError, LongstreamError)):
        return type(error).__name__
    said = str(error).split(", with args beginning with")[0]
    return f"{type(error).__name__}: {' '.join(said.split())}"[:_LINE_CHARS]


def _unwrapped(error: ResponseError) -> str:
    # Some parsers of replies leave the first word on.
    return _IN_SCRIPT.sub("", str(error).removeprefix("ERR "), count=1)
