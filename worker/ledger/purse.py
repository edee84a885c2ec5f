"""What may still be spent, for all streams of a process.

The books of the day are read at most once in a while and after a stream has ended, and only when
somebody has a budget. What the streams of this process have produced meanwhile is added, for all of
them at once: were it added for each that looks, a thousand would add up a million. What runs in
other processes counts when it ends, so all together may pass a limit by what they have in flight.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from settings.model import Settings
from worker.ledger.booking import day_of
from worker.ledger.limits import Limit, Spent, limits_of, spent_of
from worker.ledger.totals import rows_of
from worker.log.commit import GroupCommit
from worker.store.keys import books_key

#: The books are read again after this time, in seconds.
_FRESH_S = 1.0
#: And what the streams have produced is added up again after this time, in seconds.
_SUMMED_S = 0.25


@dataclass(slots=True)
class _Running:
    """A stream, and what of it is in the last sum."""

    tenant: str
    so_far: Callable[[], Decimal]
    summed: Decimal = Decimal(0)


@dataclass(slots=True)
class Purse:
    """One per process. `begin` says what a stream has cost so far, as long as it runs."""

    settings: Settings
    commit: GroupCommit
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    _read_at: float = -math.inf
    _day: str = ""
    _booked: Spent = field(default_factory=dict)
    _running: dict[int, _Running] = field(default_factory=dict)
    _summed_at: float = -math.inf
    _in_flight: dict[str | None, Decimal] = field(default_factory=lambda: defaultdict(Decimal))

    @property
    def is_watched(self) -> bool:
        """Whether anybody has a budget for the day."""
        budgets = (self.settings.budget, *self.settings.tenants.values())
        return any(budget.day_usd is not None for budget in budgets)

    def begin(self, tenant: str, so_far: Callable[[], Decimal]) -> int:
        """Count a stream of `tenant` from now on, until `end` of what this returns."""
        number = max(self._running, default=0) + 1
        self._running[number] = _Running(tenant, so_far)
        return number

    def end(self, number: int) -> None:
        if (ended := self._running.pop(number, None)) is None:
            return
        for payer in (ended.tenant, None):
            self._in_flight[payer] -= ended.summed
        # It is about to be booked, and the next that begins must see it there.
        self._read_at = -math.inf

    async def limits(self, tenant: str, now_ms: int) -> list[Limit]:
        """Every budget of the day that holds for `tenant`."""
        if not self.is_watched:
            return []
        async with self._reading:
            await self._read(now_ms)
        self._sum_up()
        spent = {
            payer: self._booked.get(payer, Decimal(0)) + self._in_flight.get(payer, Decimal(0))
            for payer in (None, tenant)
        }
        return limits_of(self.settings, tenant, spent, now_ms)

    async def _read(self, now_ms: int) -> None:
        day = day_of(now_ms)
        if day == self._day and time.monotonic() < self._read_at + _FRESH_S:
            return
        raw = await self.commit.command("HGETALL", books_key(day))
        self._booked = spent_of(rows_of(day, raw), self.settings)
        self._day, self._read_at = day, time.monotonic()

    def _sum_up(self) -> None:
        if time.monotonic() < self._summed_at + _SUMMED_S:
            return
        self._in_flight.clear()
        for each in self._running.values():
            each.summed = each.so_far()
            for payer in (each.tenant, None):
                self._in_flight[payer] += each.summed
        self._summed_at = time.monotonic()
