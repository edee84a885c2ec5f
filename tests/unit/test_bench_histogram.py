"""The statistics of the bench: stored small, and still true."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given, strategies as st

from tasks.bench.histogram import Histogram, of_values, total_of

SECONDS = st.floats(min_value=1e-5, max_value=10_000.0)
MANY = st.lists(SECONDS, min_size=1, max_size=200)
SHARES = st.floats(min_value=0.0, max_value=1.0)


@given(MANY, SHARES)
def test_a_quantile_is_within_one_per_cent_of_the_true_one(values: list[float], q: float) -> None:
    true = sorted(values)[max(1, math.ceil(q * len(values))) - 1]

    assert of_values(values).quantile(q) == pytest.approx(true, rel=0.0101)


@given(MANY, MANY)
def test_adding_two_is_counting_into_one(one: list[float], other: list[float]) -> None:
    assert total_of([of_values(one), of_values(other)]) == of_values([*one, *other])


@given(MANY, SHARES, SHARES)
def test_a_larger_share_has_no_smaller_quantile(values: list[float], q: float, r: float) -> None:
    low, high = sorted((q, r))
    counted = of_values(values)

    assert (counted.quantile(low) or 0) <= (counted.quantile(high) or 0)


@given(MANY, st.integers(min_value=1, max_value=50))
def test_bars_hold_every_value_and_leave_no_hole(values: list[float], width: int) -> None:
    bars = of_values(values).bars(width)

    assert sum(count for *_, count in bars) == len(values)
    assert bars[0][0] <= min(values) * 1.0001
    assert bars[-1][1] >= max(values) * 0.9999
    for (_, end, _), (start, *_) in itertools.pairwise(bars):
        assert end == pytest.approx(start)


@given(st.lists(SECONDS, max_size=50))
def test_what_is_stored_is_what_was_counted(values: list[float]) -> None:
    counted = of_values(values)

    assert msgspec.json.decode(msgspec.json.encode(counted), type=Histogram) == counted


def test_nothing_has_no_quantile_and_no_bars() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().bars(5) == []


def test_what_takes_no_time_is_counted_all_the_same() -> None:
    counted = of_values([0.0, -1e-9, 1.0])

    assert counted.total == 3
    assert (counted.quantile(0.5) or 1) < 2e-6
