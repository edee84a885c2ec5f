"""Lua scripts as package data: loaded once by name, called by hash, reloaded when forgotten.

A line `-- include NAME` stands for the file `NAME.lua` beside the script.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from redis.exceptions import NoScriptError

_INCLUDE = re.compile(r"^ *-- include (\w+)$", re.M)


class _SyncClient(Protocol):
    def execute_command(self, *args: Any) -> Any: ...


class Script:
    """One atomic operation."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    def command(self, keys: list[str], args: list[Any]) -> tuple[Any, ...]:
        """The EVALSHA command, for a pipeline whose owner handles NOSCRIPT."""
        return ("EVALSHA", self.sha, len(keys), *keys, *args)

    def whole(self, keys: list[str], args: list[Any]) -> list[Any]:
        """The EVAL command: longer, and never refused."""
        return ["EVAL", self.source, len(keys), *keys, *args]

    def call(self, client: _SyncClient, keys: list[str], args: list[Any]) -> Any:
        try:
            return client.execute_command(*self.command(keys, args))
        except NoScriptError:
            return client.execute_command(*self.whole(keys, args))


#: A script with its keys and arguments, for whichever client makes the call.
Call = tuple[Script, list[str], list[Any]]


def run(client: _SyncClient, call: Call) -> Any:
    """Make a call now. Raises what redis-py raises."""
    made, keys, args = call
    return made.call(client, keys, args)


@cache
def script(package: str, name: str) -> Script:
    """The script `<name>.lua` shipped beside `package`."""
    return Script(_source(package, name))


def _source(package: str, name: str) -> str:
    text = files(package).joinpath(f"{name}.lua").read_text()
    return _INCLUDE.sub(lambda found: _source(package, found[1]), text)
