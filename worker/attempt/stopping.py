"""A stream that can be told to stop from outside, and only the stream: what follows it is never cut
in half."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from worker.attempt.work import Stop

T = TypeVar("T")


class Stopping:
    """Used from one loop. The first reason to stop counts; what ended is left alone."""

    def __init__(self) -> None:
        self.why: Stop | None = None
        self._running: asyncio.Task[Any] | None = None

    def stop(self, why: Stop) -> None:
        if self.why is None:
            self.why = why
            if self._running is not None:
                self._running.cancel()

    async def until_stopped(self, stream: Coroutine[Any, Any, T]) -> T | None:
        """The stream's end; None when `stop` came first."""
        if self.why is not None:
            stream.close()
            return None
        self._running = asyncio.create_task(stream)
        try:
            await asyncio.wait({self._running})
            return None if self._running.cancelled() else self._running.result()
        finally:
            self._running.cancel()
            self._running = None
