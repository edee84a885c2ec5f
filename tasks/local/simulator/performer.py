"""Performs a script on a connection, in time, and keeps its ledger entry true.

A client that leaves is noticed at once, also in the middle of a silence.
"""

from __future__ import annotations

import asyncio
import time

from tasks.local.simulator.ledger import Entry
from tasks.local.simulator.steps import Ending, Head, Pause, Raw, Script, Send
from tasks.local.simulator.wire import Connection

#: Without any pause, give way to the other streams after so many writes.
WRITES_PER_TURN = 32
#: A stream that fell behind by more than this (its reader was slow) does not catch up.
CATCH_UP_S = 0.1
#: Lets the client's kernel take what was written before the RST overtakes it.
RESET_AFTER_S = 0.02


class Performer:
    """One script on one connection. `speed` 0 drops every pause."""

    def __init__(self, connection: Connection, entry: Entry, speed: float) -> None:
        self._connection = connection
        self._entry = entry
        self._speed = speed
        self._due = time.monotonic()
        self._writes = 0

    async def perform(self, script: Script) -> bool:
        """Perform `script`; True when the connection can carry another request."""
        acting = asyncio.ensure_future(self._act(script))
        leaving = asyncio.ensure_future(self._connection.gone())
        try:
            await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return acting.result() if acting.done() else self._left()
        except ConnectionError:
            return self._left()
        finally:
            for task in (acting, leaving):
                task.cancel()
            await asyncio.gather(acting, leaving, return_exceptions=True)

    async def _act(self, script: Script) -> bool:
        for step in script:
            if isinstance(step, Send):
                self._connection.send(step.data)
                self._entry.sent(step)
                await self._turn()
            elif isinstance(step, Pause):
                await self._pause(step.seconds)
            elif isinstance(step, Ending):
                return await self._end(step)
            else:
                self._other(step)
        self._connection.finish()
        self._performed("clean")
        return self._connection.reusable

    def _other(self, step: Head | Raw) -> None:
        if isinstance(step, Raw):
            self._connection.write(step.data)
            self._entry.bytes_sent += len(step.data)
        else:
            self._entry.status = step.status
            self._entry.first_byte = time.time()
            self._connection.begin(step, self._entry.id)

    async def _turn(self) -> None:
        """Wait for a slow reader, and give way now and then when there is nothing to wait for."""
        self._writes += 1
        if self._connection.is_behind:
            await self._connection.drained()
        elif self._writes % WRITES_PER_TURN == 0:
            await asyncio.sleep(0)

    async def _pause(self, seconds: float) -> None:
        if not self._speed:
            return
        now = time.monotonic()
        self._due = max(self._due + seconds / self._speed, now - CATCH_UP_S)
        if self._due > now:
            await asyncio.sleep(self._due - now)

    async def _end(self, ending: Ending) -> bool:
        await self._connection.flush()
        if ending is Ending.RESET:
            await asyncio.sleep(RESET_AFTER_S)
            self._connection.reset()
        self._performed(ending.value)
        if ending is Ending.HANG:
            self._entry.ended = None
            await asyncio.Event().wait()
        return False

    def _left(self) -> bool:
        self._entry.client_disconnected = True
        self._entry.ended = time.time()
        return False

    def _performed(self, ending: str) -> None:
        self._entry.ending = ending
        self._entry.finished = True
        self._entry.ended = time.time()
