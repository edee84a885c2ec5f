"""Readers of a run. Each keeps the text as a client would, and says what it ended up with."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import redis.asyncio

from settings.errors import LongstreamError
from worker.log import reader
from worker.log.cursor import START, Cursor
from worker.log.view import Cut, End, Followed, Item, Text

#: A reader that comes back stays for so many items, at most.
_STAYS = 120
_AWAY_S = 3.0
_LATE_S = 20.0


@dataclass
class Heard:
    """`wrong`: what no reader may ever meet, in words; '' when nothing was."""

    job_id: str
    kind: str
    text: str = ""
    outcome: str = ""
    wrong: str = ""
    cursor: Cursor = START

    def take(self, item: Followed) -> None:
        if isinstance(item, Cut):
            self.text = self.text[: item.offset]
        elif isinstance(item, Text):
            if item.offset != len(self.text):
                self.wrong = f"text at {item.offset}, and it has {len(self.text)} characters"
            self.text += item.text
        elif isinstance(item, End):
            self.outcome = item.outcome
        if isinstance(item, Item):
            at = Cursor.parse(item.cursor)
            if at < self.cursor:
                self.wrong = f"entry {at} came behind {self.cursor}"
            self.cursor = at


async def live(client: redis.asyncio.Redis, job_id: str, _: random.Random) -> Heard:
    """There from the submit to the end."""
    return await _read(client, Heard(job_id, "live"))


async def late(client: redis.asyncio.Redis, job_id: str, chance: random.Random) -> Heard:
    """Comes when the job is under way, or over."""
    await asyncio.sleep(chance.random() * _LATE_S)
    return await _read(client, Heard(job_id, "late"))


async def returning(client: redis.asyncio.Redis, job_id: str, chance: random.Random) -> Heard:
    """Goes away at random and comes back with its cursor, until the end."""
    heard = Heard(job_id, "returning")
    while not heard.outcome and not heard.wrong:
        stay = chance.randint(1, _STAYS)
        await _read(client, heard, stay)
        await asyncio.sleep(chance.random() * _AWAY_S)
    return heard


async def _read(client: redis.asyncio.Redis, heard: Heard, stay: int | None = None) -> Heard:
    count = 0
    items = reader.atail(client, heard.job_id, heard.cursor)
    try:
        async for item in items:
            heard.take(item)
            count += 1
            if count == stay:
                break
    except LongstreamError as error:
        heard.wrong = f"{type(error).__name__}: {error}"
    finally:
        await items.aclose()  # type: ignore[attr-defined]
    return heard


KINDS = (live, late, returning)
