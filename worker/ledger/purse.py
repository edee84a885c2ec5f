"""What may still be spent, for all streams of a process.

The books of the day are read at most once in a while, and only when somebody has a budget. What the
streams of this process have produced meanwhile is added; what runs in other processes counts when
it ends, so all together may pass a limit by what they have in flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from settings.budgets import Action
from settings.model import Settings
from worker.cost import exact
from worker.keys import books_key
from worker.ledger.booking import day_of
from worker.ledger.totals import Row, cost, rows_of
from worker.log.commit import GroupCommit

#: The books are read again after this time, in seconds.
_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Over:
    """A budget that is used up."""

    reason: str
    action: Action
    until_ms: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One day's budget, and what is left of it in USD."""

    whose: str
    usd: Decimal
    left: Decimal
    action: Action
    until_ms: int

    def over(self) -> Over:
        until = datetime.fromtimestamp(self.until_ms / 1000, UTC)
        reason = (
            f"budget of {self.whose}: {self.usd - self.left:.4f} of {self.usd} USD are spent, "
            f"until {until:%Y-%m-%d %H:%M} UTC"
        )
        return Over(reason, self.action, self.until_ms)


@dataclass(slots=True)
class Purse:
    """One per process. `begin` says what a stream has cost so far, as long as it runs."""

    settings: Settings
    commit: GroupCommit
    _read_at: float = -float("inf")
    _day: str = ""
    _rows: list[Row] = field(default_factory=list)
    _running: dict[int, tuple[str, Callable[[], Decimal]]] = field(default_factory=dict)

    @property
    def is_watched(self) -> bool:
        """Whether anybody has a budget for the day."""
        budgets = (self.settings.budget, *self.settings.tenants.values())
        return any(budget.day_usd is not None for budget in budgets)

    def begin(self, tenant: str, so_far: Callable[[], Decimal]) -> int:
        """Count a stream of `tenant` from now on, until `end` of what this returns."""
        number = max(self._running, default=0) + 1
        self._running[number] = (tenant, so_far)
        return number

    def end(self, number: int) -> None:
        self._running.pop(number, None)

    async def limits(self, tenant: str, now_ms: int) -> list[Limit]:
        """Every budget of the day that holds for `tenant`."""
        if not self.is_watched:
            return []
        await self._refresh(now_ms)
        return limits_of(self.settings, tenant, self._rows, now_ms, self._running.values())

    async def _refresh(self, now_ms: int) -> None:
        day = day_of(now_ms)
        if day == self._day and time.monotonic() < self._read_at + _FRESH_S:
            return
        raw = await self.commit.command("HGETALL", books_key(day))
        self._rows, self._day, self._read_at = rows_of(day, raw), day, time.monotonic()


def limits_of(
    settings: Settings,
    tenant: str,
    rows: Iterable[Row],
    now_ms: int,
    running: Iterable[tuple[str, Callable[[], Decimal]]] = (),
) -> list[Limit]:
    """What is left of the day's budgets, by the day's books and what runs beside them."""
    rows, running, found = list(rows), list(running), []
    budgets = [("everybody", settings.budget, "")]
    if tenant in settings.tenants:
        budgets.append((f"tenant {tenant}", settings.tenants[tenant], tenant))
    for whose, budget, only in budgets:
        if budget.day_usd is None:
            continue
        usd = exact(budget.day_usd)
        spent = cost((row for row in rows if not only or row.tenant == only), settings).usd
        streams = (so_far() for owner, so_far in running if not only or owner == only)
        left = usd - spent - sum(streams, Decimal(0))
        found.append(Limit(whose, usd, left, budget.action, _next_day(now_ms)))
    return found


def _next_day(now_ms: int) -> int:
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), UTC)
    return int(midnight.timestamp() * 1000)
