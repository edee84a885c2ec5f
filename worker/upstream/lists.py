"""Turns what is pushed into what is pulled: the happenings of a stream as an async generator.

A stream waits until the list before was taken, so whoever reads slowly slows the provider down, and
what comes meanwhile is in the next list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from worker.upstream.following import Take
from worker.upstream.happenings import Happening


async def lists(into: Callable[[Take], Awaitable[None]]) -> AsyncGenerator[list[Happening], None]:
    """What `into` gives its taker, list by list, and then what it raises."""
    place = _Place()

    async def run() -> None:
        await into(place.take)

    running = asyncio.create_task(run())
    running.add_done_callback(lambda _: place.filled.set())
    try:
        while not (running.done() and place.held is None):
            await place.filled.wait()
            place.filled.clear()
            if place.held is not None:
                yield place.emptied()
                place.wanted.set()
        running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


class _Place:
    """Holds one list until it is taken."""

    def __init__(self) -> None:
        self.held: list[Happening] | None = None
        self.filled, self.wanted = asyncio.Event(), asyncio.Event()

    def take(self, happenings: list[Happening]) -> Awaitable[None]:
        self.held = happenings
        self.wanted.clear()
        self.filled.set()
        return self._until_wanted()

    def emptied(self) -> list[Happening]:
        held, self.held = self.held, None
        assert held is not None
        return held

    async def _until_wanted(self) -> None:
        await self.wanted.wait()
