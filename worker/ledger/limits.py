"""What is left of the day's budgets, by the books and what runs beside them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from settings.budgets import Action, Budget
from settings.model import Settings
from worker.ledger.cost import exact
from worker.ledger.totals import Row, cost


class Over(msgspec.Struct, frozen=True):
    """A budget that is used up."""

    reason: str
    action: Action
    until_ms: int


class Limit(msgspec.Struct, frozen=True):
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


#: USD by tenant; of everybody together under None.
Spent = Mapping[str | None, Decimal]


def spent_of(rows: Iterable[Row], settings: Settings) -> Spent:
    """What the books of a day say."""
    spent: dict[str | None, Decimal] = defaultdict(Decimal)
    for row in rows:
        usd = cost((row,), settings).usd
        spent[row.tenant] += usd
        spent[None] += usd
    return spent


def limits_of(settings: Settings, tenant: str, spent: Spent, now_ms: int) -> list[Limit]:
    """What is left of every budget of the day that holds for `tenant`."""
    found = []
    budgets: list[tuple[str, Budget, str | None]] = [("everybody", settings.budget, None)]
    if tenant in settings.tenants:
        budgets.append((f"tenant {tenant}", settings.tenants[tenant], tenant))
    for whose, budget, payer in budgets:
        if budget.day_usd is None:
            continue
        usd = exact(budget.day_usd)
        left = usd - spent.get(payer, Decimal(0))
        found.append(Limit(whose, usd, left, budget.action, _next_day(now_ms)))
    return found


def _next_day(now_ms: int) -> int:
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    midnight = datetime.combine(today + timedelta(days=1), datetime.min.time(), UTC)
    return int(midnight.timestamp() * 1000)
