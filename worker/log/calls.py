"""What goes through the group commit: a command, and who is told its reply."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from worker.store.scripts import Script


class Call(Protocol):
    """What goes through here: one command, and who is told its reply."""

    @property
    def script(self) -> Script | None:
        """What the command runs, should the store not know it."""

    def command(self) -> tuple[Any, ...] | None:
        """The command as it leaves now, and the same each time it must be sent again. None when
        nobody waits for its reply any more."""

    def done(self, reply: Any) -> None:
        """Takes the reply, or the error it was."""


class Awaited:
    """A call with a future; once that is done, nobody waits any more."""

    __slots__ = ("_command", "future", "script")

    def __init__(
        self, command: tuple[Any, ...], script: Script | None, future: asyncio.Future[Any]
    ) -> None:
        self._command = command
        self.script = script
        self.future = future

    def command(self) -> tuple[Any, ...] | None:
        return None if self.future.done() else self._command

    def done(self, reply: Any) -> None:
        if self.future.done():
            return
        if isinstance(reply, Exception):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply)


class Loading:
    """Teaches the store a script. Whether it did shows when the script is called."""

    script = None

    def __init__(self, script: Script) -> None:
        self._source = script.source

    def command(self) -> tuple[Any, ...]:
        return ("SCRIPT", "LOAD", self._source)

    def done(self, reply: Any) -> None:
        pass


def is_forgotten(call: Call) -> bool:
    """Whether nobody waits for its reply any more."""
    return isinstance(call, Awaited) and call.future.done()
