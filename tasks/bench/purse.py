"""The spend limit: what is under way is reserved at its upper bound, so the limit holds. Pure."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from settings.errors import LongstreamError
from settings.prices import Price
from tasks.bench.plan import MAX_OUTPUT_TOKENS
from tasks.bench.sample import Sample
from worker.ledger.cost import NOTHING, cost_of, small
from worker.log.entries import Tokens

#: What one sample can take: its prompt, its answer and the reasoning that gateways count apart.
BOUND = Tokens(input=200, output=MAX_OUTPUT_TOKENS + 4_096)


class Purse:
    """`limit` None: no limit. Raises LongstreamError when the limit could not be kept."""

    def __init__(self, limit: Decimal | None, model: str, price: Price) -> None:
        if limit is not None and price.output is None:
            raise LongstreamError(
                f"--max-cost needs the price of {model}, which is unknown: add it under "
                f'[prices."{model}"] in longstream.toml'
            )
        self.limit = limit
        self._price = price
        self._bound = cost_of(BOUND, _careful(price)).usd
        self._settled = Decimal(0)
        self._reserved = 0
        self.cost = NOTHING

    @property
    def spent(self) -> str:
        """The cost so far, in few characters; `+ ?` stands for tokens of unknown price."""
        if not self.cost.usd and self.cost.unpriced:
            return "price unknown"
        return f"{small(self.cost.usd)} USD{' + ?' if self.cost.unpriced else ''}"

    def reserve(self) -> bool:
        """True when one more sample can be begun without passing the limit."""
        if self.limit is not None:
            worst = self._settled + self._bound * (self._reserved + 1)
            if worst > self.limit:
                return False
        self._reserved += 1
        return True

    def release(self) -> None:
        self._reserved -= 1

    def settle(self, sample: Sample) -> None:
        """Count what a sample took. One whose usage nobody told counts at its bound."""
        if sample.tokens is None:
            self._settled += Decimal(0) if not sample.characters else self._bound
            return
        self._settled += cost_of(sample.tokens, _careful(self._price)).usd
        self.cost += cost_of(sample.tokens, self._price)


def _careful(price: Price) -> Price:
    """For the limit alone: no known provider charges more for a prompt than for an answer."""
    if price.output is None:
        return price
    known = price.output if price.input is None else price.input
    return replace(price, input=known, cached_input=known)
