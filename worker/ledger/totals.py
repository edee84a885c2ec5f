"""The books added up: what was spent by day, tenant, model, key or task.

The books hold tokens and no money, so a price that is learned later holds for them, too. Every sum
here is reckoned with the prices of the settings it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from settings.model import Settings
from worker.ledger.cost import NOTHING, Cost, cost_of, exact, small
from worker.ledger.spending import Spending
from worker.log.entries import Tokens

By = Literal["day", "tenant", "model", "key", "task", "cause"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in one way on one day. `cause`: why it was thrown away, or empty."""

    day: str
    tenant: str
    model: str
    key: str
    task: str
    cause: str
    attempts: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    #: Tokens of these that nobody counted but we.
    estimated: int = 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            input=self.input, cached=self.cached, output=self.output, reasoning=self.reasoning
        )


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """An amount for programs: `usd` of what has a price, and the tokens that have none.

    `wasted` parts are in the amount, too. `estimated`: tokens that no provider counted for us.
    """

    usd: float
    unpriced_tokens: int
    wasted_usd: float
    wasted_tokens: int
    estimated_tokens: int
    approximate: bool


class Sum(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `longstream spend`. `wasted`: tokens thrown away, by cause."""

    name: str
    attempts: int
    input: int
    cached: int
    output: int
    reasoning: int
    wasted: dict[str, int]
    money: Money


def rows_of(day: str, books: dict[bytes, bytes]) -> list[Row]:
    """The rows in the books of one day, as HGETALL gives them."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for field, amount in books.items():
        *who, quantity = msgspec.json.decode(field)
        found.setdefault(tuple(who), {})[quantity] = int(amount)
    return [
        Row(day=day, tenant=tenant, model=model, key=key, task=task, cause=cause, **amounts)
        for (tenant, model, key, task, cause), amounts in found.items()
    ]


def grouped(rows: Iterable[Row], by: By, settings: Settings) -> list[Sum]:
    """The rows added up, the largest amount first; days in their order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(getattr(row, by) or "(used)", []).append(row)
    sums = [summed(name, group, settings) for name, group in groups.items()]
    if by == "day":
        return sorted(sums, key=lambda each: each.name)
    return sorted(sums, key=lambda each: (-each.money.usd, -each.output, each.name))


def summed(name: str, rows: Sequence[Row], settings: Settings) -> Sum:
    wasted: dict[str, int] = {}
    for row in rows:
        if row.cause:
            wasted[row.cause] = wasted.get(row.cause, 0) + row.input + row.output
    return Sum(
        name=name,
        attempts=sum(row.attempts for row in rows),
        input=sum(row.input for row in rows),
        cached=sum(row.cached for row in rows),
        output=sum(row.output for row in rows),
        reasoning=sum(row.reasoning for row in rows),
        wasted=dict(sorted(wasted.items(), key=lambda pair: -pair[1])),
        money=_money(rows, settings),
    )


def cost(rows: Iterable[Row], settings: Settings) -> Cost:
    """What the rows cost together."""
    return sum((cost_of(row.tokens, settings.price(row.model)) for row in rows), NOTHING)


def cost_of_all(spent: Iterable[Spending], settings: Settings) -> Cost:
    """What the attempts of one job cost together."""
    return sum((cost_of(each.tokens, settings.price(each.model)) for each in spent), NOTHING)


def saved_by(spent: Iterable[Spending], instead_of: str, settings: Settings) -> float | None:
    """What the same tokens would have cost more with another model; None: a price is unknown."""
    spent = list(spent)
    other = [msgspec.structs.replace(each, model=instead_of) for each in spent]
    ours, theirs = cost_of_all(spent, settings), cost_of_all(other, settings)
    # Where both lack the same part, such as the price of the input, it is left out of both.
    if ours.unpriced != theirs.unpriced:
        return None
    return float(theirs.usd - ours.usd)


def money_of(spent: Iterable[Spending], settings: Settings) -> Money:
    """What the attempts of one job cost."""
    rows = [
        Row(
            day="",
            tenant="",
            model=each.model,
            key=each.key,
            task="",
            cause=each.wasted,
            input=each.tokens.input,
            cached=each.tokens.cached,
            output=each.tokens.output,
            estimated=each.tokens.input + each.tokens.output if each.estimated else 0,
        )
        for each in spent
    ]
    return _money(rows, settings)


def amount(money: Money) -> str:
    """The amount in words."""
    return str(Cost(exact(money.usd), money.unpriced_tokens, money.approximate))


def short(money: Money) -> str:
    """The amount in few characters, in USD: `~1.20 + ?`; the `?` stands for what has no price."""
    if money.unpriced_tokens and not money.usd:
        return "?"
    unknown = " + ?" if money.unpriced_tokens else ""
    return f"{'~' if money.approximate else ''}{small(exact(money.usd))}{unknown}"


def shown(money: Money) -> str:
    """The amount in words, its wasted part and what is only an estimate."""
    parts = [amount(money)]
    if money.wasted_tokens:
        lost = Cost(exact(money.wasted_usd), 0, money.approximate)
        priced = f"{lost}, " if money.wasted_usd else ""
        parts.append(f"wasted: {priced}{money.wasted_tokens:,} tokens")
    if money.estimated_tokens:
        parts.append(f"{money.estimated_tokens:,} tokens estimated")
    return "; ".join(parts)


def _money(rows: Sequence[Row], settings: Settings) -> Money:
    whole = cost(rows, settings)
    lost = [row for row in rows if row.cause]
    return Money(
        usd=float(whole.usd),
        unpriced_tokens=whole.unpriced,
        wasted_usd=float(cost(lost, settings).usd),
        wasted_tokens=sum(row.input + row.output for row in lost),
        estimated_tokens=sum(row.estimated for row in rows),
        approximate=whole.approximate,
    )
