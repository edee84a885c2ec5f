"""What a budget refuses when a job is submitted, with the way out."""

from __future__ import annotations

import redis

from settings.errors import LongstreamError
from settings.model import Settings
from worker.job.terms import Terms
from worker.ledger.booking import day_of
from worker.ledger.limits import limits_of, spent_of
from worker.ledger.totals import rows_of
from worker.store.keys import books_key


class BudgetSpent(LongstreamError):
    """A day's budget is used up, and its action is `stop`."""


def refuse_unpriced(settings: Settings, model: str, tenant: str, terms: Terms) -> None:
    """Raises LongstreamError for a model whose cost nobody knows, where a budget limits it."""
    own = settings.tenants.get(tenant)
    limited = terms.max_cost_usd is not None or any(
        budget.is_set and budget.action != "warn" for budget in (own, settings.budget) if budget
    )
    if limited and not settings.price(model).known:
        raise LongstreamError(
            f"{model} has no known price, and a budget holds for this job: add the price under "
            "[prices] in longstream.toml"
        )


def refuse_spent(client: redis.Redis, settings: Settings, tenant: str, now_ms: int) -> None:
    """Raises LongstreamError when a day's budget whose action is `stop` is used up."""
    if all(b.day_usd is None for b in (settings.budget, *settings.tenants.values())):
        return
    books = client.hgetall(books_key(day_of(now_ms)))
    rows = rows_of(day_of(now_ms), books)  # type: ignore[arg-type]
    for limit in limits_of(settings, tenant, spent_of(rows, settings), now_ms):
        if limit.left <= 0 and limit.action == "stop":
            raise BudgetSpent(f"{limit.over().reason}: raise it in longstream.toml, or wait")
