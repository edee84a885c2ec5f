"""What tokens cost: pure arithmetic, exact to the last digit.

A cost has two parts that are never mixed: the money of the tokens whose price is known, and the
number of tokens whose price is not. So an unknown price can be told from nothing at all.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_HALF_UP, Decimal

import msgspec

from settings.prices import Price
from worker.log.entries import Tokens

_MILLION = Decimal(1_000_000)
_CENT = Decimal("0.01")
#: From here on a sum is shown in whole units.
_WHOLE = 100
#: Digits of a small sum, so that a short answer does not look free.
_DIGITS = Decimal("0.0001")
_SMALLEST = Decimal("0.000001")


class Cost(msgspec.Struct, frozen=True):
    """`usd` pays what has a price; `unpriced` are the tokens that have none."""

    usd: Decimal = Decimal(0)
    unpriced: int = 0
    approximate: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.approximate or other.approximate,
        )

    def __str__(self) -> str:
        """`0.0120 USD`, `price unknown`, or both parts."""
        if self.unpriced and not self.usd:
            return f"price unknown ({self.unpriced:,} tokens)"
        money = f"{'about ' if self.approximate else ''}{small(self.usd)} USD"
        if not self.unpriced:
            return money
        return f"{money} and {self.unpriced:,} tokens of unknown price"

    @property
    def micros(self) -> int | None:
        """Millionths of a USD, rounded up; None when a part of it is unknown."""
        return (
            None if self.unpriced else int((self.usd * _MILLION).to_integral_value(ROUND_CEILING))
        )


NOTHING = Cost()


def cost_of(tokens: Tokens, price: Price) -> Cost:
    """What `tokens` cost. Cached input is part of the input, reasoning of the output."""
    cached = min(tokens.cached, tokens.input)
    parts = (
        (tokens.input - cached, price.input),
        (cached, price.cached_input),
        (tokens.output, price.output),
    )
    usd = sum((exact(each) * count for count, each in parts if each is not None), Decimal(0))
    unpriced = sum(count for count, each in parts if each is None)
    return Cost(usd / _MILLION, unpriced, price.approximate and usd > 0)


def exact(figure: float) -> Decimal:
    """A figure of the settings as it was written."""
    return Decimal(repr(figure))


def figure(price: float) -> str:
    """A price, with its cents or all the digits it has."""
    amount = exact(price)
    return f"{amount.quantize(_CENT) if amount == amount.quantize(_CENT) else amount:f}"


def small(amount: Decimal) -> str:
    """An amount of money that may be tiny: what is there never looks like nothing."""
    if not amount or amount >= 1:
        return f"{amount.quantize(_CENT, ROUND_HALF_UP):,}"
    if amount >= _DIGITS:
        return str(amount.quantize(_DIGITS, ROUND_HALF_UP))
    return str(amount.quantize(_SMALLEST)) if amount >= _SMALLEST else f"under {_SMALLEST}"


def rounded(amount: Decimal) -> str:
    """A larger sum: in whole units, rounded down; under a hundred with its cents."""
    if amount < _WHOLE and amount % 1:
        return f"{amount.quantize(_CENT, ROUND_HALF_UP):,}"
    return f"{amount.quantize(Decimal(1), ROUND_DOWN):,}"
