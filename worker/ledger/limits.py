"""What is left of the day's budgets, by the books and what runs beside them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from settings.budgets import Action
from settings.model import Settings
from worker.cost import exact
from worker.ledger.totals import Row, cost


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
