"""What models cost: the published price list, and the prices a user knows better.

A figure nobody published is unknown, which is not the same as free. Names are matched whole, so
that a cheaper variant (`gpt-4.1-mini`) is never taken for its sibling. What the user's file says of
a model wins, figure by figure, over the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Annotated

from msgspec import Meta, Struct

#: USD per million tokens. Zero is legal: one's own server may be free.
Figure = Annotated[float, Meta(ge=0, le=1_000_000)]


class Price(Struct, frozen=True, kw_only=True):
    """USD per million tokens; None is unknown."""

    input: Annotated[Figure | None, "Tokens of the prompt."] = None
    cached_input: Annotated[Figure | None, "Tokens of the prompt that were read from a cache."] = (
        None
    )
    output: Annotated[Figure | None, "Tokens of the answer, reasoning included."] = None
    source: Annotated[str, "Where the figures are from."] = ""
    date: Annotated[str, "When they were true."] = ""
    approximate: Annotated[bool, "Whether they are known only roughly."] = False

    @property
    def known(self) -> bool:
        """True when at least one figure is."""
        return any(part is not None for part in (self.input, self.cached_input, self.output))


UNKNOWN = Price()


class Listed(Struct, frozen=True, kw_only=True):
    """One entry of the published list."""

    name: str
    models: tuple[str, ...]
    price: Price


@cache
def published() -> tuple[Listed, ...]:
    """The price list that ships with the product, as it stands in `prices.toml`."""
    import tomllib
    from importlib.resources import files

    document = tomllib.loads(files("settings").joinpath("prices.toml").read_text("utf-8"))
    return tuple(
        Listed(name=entry.pop("name"), models=tuple(entry.pop("models")), price=Price(**entry))
        for entry in document["price"]
    )


def price_of(model: str, own: Mapping[str, Price]) -> Price:
    """The price of `model`; `own` are the user's, by model or pattern, the first that fits."""
    mine = [price for pattern, price in own.items() if fnmatchcase(model, pattern)]
    return _joined([*mine, _listed(model)]) if mine else _listed(model)


#: Asked for with every usage a provider reports, and the names come from users.
@lru_cache(maxsize=1_000)
def _listed(model: str) -> Price:
    return _joined(
        each.price for each in published() if any(fnmatchcase(model, p) for p in each.models)
    )


def _joined(prices: Iterable[Price]) -> Price:
    """Each figure from the first that has it; where it is from, from the first of all."""
    found = UNKNOWN
    for price in prices:
        if not found.known:
            found = price
            continue
        found = Price(
            input=price.input if found.input is None else found.input,
            cached_input=price.cached_input if found.cached_input is None else found.cached_input,
            output=price.output if found.output is None else found.output,
            source=found.source,
            date=found.date,
            approximate=found.approximate or (found.output is None and price.approximate),
        )
    return found
