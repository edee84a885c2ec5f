"""The spend limit: nothing that began can pass it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from settings.errors import LongstreamError
from settings.prices import Price
from tasks.bench.purse import BOUND, Purse
from tasks.bench.sample import Sample, Verdict
from worker.ledger.cost import cost_of
from worker.log.entries import Tokens

PRICE = Price(input=1.25, cached_input=0.5, output=12.0)


def sample(tokens: Tokens | None, characters: int = 1) -> Sample:
    return Sample(
        phase="jobs",
        n=0,
        kind="k",
        effort="low",
        verdict=Verdict.COMPLETED,
        tokens=tokens,
        characters=characters,
    )


@given(
    st.decimals(min_value="0.01", max_value="3", places=2),
    st.lists(st.tuples(st.integers(0, BOUND.input), st.integers(0, BOUND.output)), max_size=60),
    st.integers(min_value=1, max_value=9),
)
def test_no_order_of_samples_passes_the_limit(
    limit: Decimal, takes: list[tuple[int, int]], at_a_time: int
) -> None:
    purse, running, paid = Purse(limit, "m", PRICE), [], Decimal(0)
    for asked, answered in takes:
        if len(running) == at_a_time:
            done = running.pop(0)
            purse.release()
            purse.settle(sample(done))
            paid += cost_of(done, PRICE).usd
        if purse.reserve():
            running.append(Tokens(input=asked, output=answered))
    paid += sum(cost_of(each, PRICE).usd for each in running)

    assert paid <= limit


def test_without_a_limit_everything_goes_on() -> None:
    purse = Purse(None, "m", Price())

    assert all(purse.reserve() for _ in range(10_000))


def test_what_was_not_used_of_a_bound_is_free_again() -> None:
    purse = Purse(cost_of(BOUND, PRICE).usd, "m", PRICE)

    assert purse.reserve()
    assert not purse.reserve()
    purse.release()
    purse.settle(sample(Tokens(), characters=0))
    assert purse.reserve()


def test_a_sample_whose_usage_nobody_told_counts_at_its_bound() -> None:
    purse = Purse(cost_of(BOUND, PRICE).usd, "m", PRICE)
    purse.settle(sample(None))

    assert not purse.reserve()


def test_an_unknown_input_price_is_taken_for_the_output_price() -> None:
    limit = cost_of(BOUND, Price(input=12.0, cached_input=12.0, output=12.0)).usd

    assert Purse(limit, "m", Price(output=12.0)).reserve()
    assert not Purse(limit - Decimal("0.0001"), "m", Price(output=12.0)).reserve()


def test_a_limit_without_a_price_is_refused_with_the_way_out() -> None:
    with pytest.raises(LongstreamError, match=r'\[prices."own-model"\] in longstream.toml'):
        Purse(Decimal(5), "own-model", Price(input=1.0))


@pytest.mark.parametrize(
    ("price", "spent"),
    [
        (PRICE, "0.0012 USD"),
        (Price(output=12.0), "0.0012 USD + ?"),
        (Price(), "price unknown"),
    ],
)
def test_what_was_spent_is_told_in_few_words(price: Price, spent: str) -> None:
    purse = Purse(None, "m", price)
    purse.settle(sample(Tokens(input=1, output=100)))

    assert purse.spent == spent
