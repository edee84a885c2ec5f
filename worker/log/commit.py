"""Group commit by natural batching: what all streams of a process write goes over one connection.

Whatever is pending leaves as one pipeline; while that is in flight, the next batch collects.
No timer holds anything back when the connection is idle, and under load batches grow by
themselves. A call whose reply is lost is sent again, so every script sent through here must be
safe to repeat: appends are, because the store refuses an id it already has.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

from worker.errors import StoreRefused
from worker.faults import forbids, passes, words_of
from worker.scripts import Script
from worker.seeing.meters import METERS, Meters

#: Longest pause between two tries while Redis does not answer, in seconds.
_LONGEST_PAUSE_S = 2.0

#: What an operator can do about a store that shuts us out.
_ALLOW = "let the user of LONGSTREAM_REDIS_URL run scripts and commands on ls:* (ACL SETUSER)"

_log = structlog.get_logger()


class _Call:
    __slots__ = ("command", "done", "script")

    def __init__(self, command: list[Any], script: Script | None) -> None:
        self.command = command
        self.script = script
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class GroupCommit:
    """Runs scripts for many streams; belongs to one event loop and owns its client."""

    def __init__(self, client: Redis, meters: Meters = METERS) -> None:
        self._client = client
        self._meters = meters
        self._sizes, self._times = meters.batch.of(), meters.exchange.of()
        self._pending: list[_Call] = []
        #: Those that were sent and are not answered.
        self._flying: list[_Call] = []
        self._sender: asyncio.Task[None] | None = None

    async def call(self, script: Script, keys: list[str], args: list[Any]) -> Any:
        """The script's reply. Waits as long as Redis is away, or shuts us out. Raises StoreRefused
        for what it will never do."""
        return await self._reply_to(_Call(script.command(keys, args), script))

    async def command(self, *args: Any) -> Any:
        """The reply of a plain command, on the same terms."""
        return await self._reply_to(_Call(list(args), None))

    async def _reply_to(self, call: _Call) -> Any:
        self._pending.append(call)
        if self._sender is None:
            self._sender = asyncio.create_task(self._send())
        return await call.done

    async def close(self) -> None:
        """Give up what is pending and close the connection."""
        if self._sender is not None:
            self._sender.cancel()
        for call in (*self._flying, *self._pending):
            call.done.cancel()
        await self._client.aclose()

    async def _send(self) -> None:
        tries = 0
        while self._pending:
            batch, self._pending = self._pending, []
            self._flying = batch
            again = await self._exchange([call for call in batch if not call.done.cancelled()])
            self._flying = again
            if not again:
                tries = 0
                continue
            # Behind nothing of their own stream: a stream has one append in flight at most.
            self._pending[:0] = again
            tries += 1
            self._meters.unreachable.add()
            await asyncio.sleep(min(_LONGEST_PAUSE_S, 0.05 * 2**tries) * random.uniform(0.5, 1))  # noqa: S311
        self._sender = None

    async def _exchange(self, batch: list[_Call]) -> list[_Call]:
        """Send one batch; return the calls that must be sent again."""
        began = time.monotonic()
        pipeline = self._client.pipeline(transaction=False)
        for call in batch:
            pipeline.execute_command(*call.command)
        try:
            replies = await pipeline.execute(raise_on_error=False)
        except Exception as error:
            if _waited_for(error):
                _log.warning("store.unreachable", says=words_of(error), pending=len(batch))
                return batch
            return await self._one_by_one(batch, error)
        self._sizes.observe(len(batch))
        self._times.observe(time.monotonic() - began)
        again = [
            call for call, reply in zip(batch, replies, strict=True) if self._settle(call, reply)
        ]
        if again and (forbidden := next(filter(forbids, replies), None)) is not None:
            _log.error("store.forbids", says=words_of(forbidden), remedy=_ALLOW)
        await self._load({call.script for call in again if call.script is not None})
        return again

    async def _one_by_one(self, batch: list[_Call], error: Exception) -> list[_Call]:
        """A command that can not be sent fails its own stream and no other."""
        if len(batch) > 1:
            return [again for call in batch for again in await self._exchange([call])]
        for call in batch:
            self._settle(call, error)
        return []

    def _settle(self, call: _Call, reply: Any) -> bool:
        """Hand out one reply; True when the call must be sent again."""
        failed = isinstance(reply, Exception)
        if failed and (isinstance(reply, NoScriptError) or _waited_for(reply)):
            return True
        if call.done.done():
            return False
        if isinstance(reply, ResponseError):
            call.done.set_exception(StoreRefused(words_of(reply)))
        elif failed:
            call.done.set_exception(reply)
        else:
            call.done.set_result(reply)
        return False

    async def _load(self, scripts: set[Script]) -> None:
        try:
            for script in scripts:
                await self._client.script_load(script.source)
        except Exception as error:
            if not _waited_for(error):
                raise


def _waited_for(error: Exception) -> bool:
    return passes(error) or forbids(error)
