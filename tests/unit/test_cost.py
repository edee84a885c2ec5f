"""The arithmetic of money."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from settings.prices import UNKNOWN, Price
from tasks.cli.cost import command
from worker.ledger.cost import Cost, cost_of, rounded, small
from worker.log.entries import Tokens

WHOLE = Price(input=2.0, cached_input=0.5, output=8.0)
counts = st.integers(0, 10**12)


def test_cached_input_and_reasoning_are_parts_and_counted_once() -> None:
    tokens = Tokens(input=1_000_000, cached=400_000, output=250_000, reasoning=200_000)

    assert cost_of(tokens, WHOLE) == Cost(Decimal("1.2") + Decimal("0.2") + Decimal("2"))


def test_tokens_without_a_price_are_told_apart_from_money() -> None:
    cost = cost_of(Tokens(input=1000, output=1_000_000), Price(output=12.0, approximate=True))

    assert (cost.usd, cost.unpriced) == (Decimal(12), 1000)
    assert str(cost) == "about 12.00 USD and 1,000 tokens of unknown price"
    assert cost.micros is None


def test_an_unknown_price_is_never_zero() -> None:
    assert str(cost_of(Tokens(output=7), UNKNOWN)) == "price unknown (7 tokens)"


@given(counts, counts, counts, counts)
def test_costs_add_up_exactly(a: int, b: int, c: int, d: int) -> None:
    price = Price(input=0.15, cached_input=0.0375, output=0.42)
    one, two = Tokens(input=a, output=b), Tokens(input=c, output=d)
    both = Tokens(input=a + c, output=b + d)

    assert cost_of(one, price) + cost_of(two, price) == cost_of(both, price)


def test_micros_are_rounded_up() -> None:
    assert cost_of(Tokens(output=1), Price(output=0.42)).micros == 1


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "0.00"),
        ("0.00000042", "under 0.000001"),
        ("0.0000051", "0.000005"),
        ("0.0123456", "0.0123"),
        ("1234.567", "1,234.57"),
    ],
)
def test_a_small_amount_never_looks_like_nothing(amount: str, shown: str) -> None:
    assert small(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [("306.6", "306"), ("42", "42"), ("3.066", "3.07"), ("8760.0", "8,760")]
)
def test_a_large_sum_is_in_whole_units_rounded_down(amount: str, shown: str) -> None:
    assert rounded(Decimal(amount)) == shown


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def no_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "row",
    [
        ["claude-sonnet-4.5", "15.00", "1,500", "10,950", "1,500", "86.3 %"],
        ["gpt-5.5-codex", "~12.00", "~1,200", "8,760", "1,200", "86.3 %"],
        ["gpt-4.1", "8.00", "800", "5,840", "800", "86.3 %"],
        ["gemini-2.5-flash", "2.50", "250", "1,825", "250", "86.3 %"],
        ["deepseek-v3.2", "0.42", "42", "306", "42", "86.3 %"],
    ],
)
def test_a_hundred_million_output_tokens_cost_what_was_published(row: Sequence[str]) -> None:
    lines = [line.split("  ") for line in run("--output-tokens", "100M").splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]

    assert list(row) in cells


def test_input_without_a_price_is_marked_in_every_amount() -> None:
    output = run("--output-tokens", "1M", "--input-tokens", "1M", "--model", "gpt-4.1")

    assert "8 + ?" in output
    assert "add it under [prices]" in output


def test_json_has_exact_amounts_and_null_for_what_is_unknown() -> None:
    lines = run("--output-tokens", "100M", "--model", "deepseek-v3.2", "--model", "x", "--json")
    known, unknown = map(json.loads, lines.splitlines())

    assert (known["usd"], known["cny_card"]) == (42.0, 306.6)
    assert (unknown["model"], unknown["usd"], unknown["unpriced_tokens"]) == ("x", None, 10**8)


@pytest.mark.parametrize("count", ["", "x", "-1", "1.5", "nan", "infinity", "1e99", "M"])
def test_what_is_no_number_of_tokens_is_refused(count: str) -> None:
    result = CliRunner().invoke(command, ["--output-tokens", count])

    assert result.exit_code == 2
    assert "expected a number of tokens such as 250000, 250k or 1.5M" in result.output


@pytest.mark.parametrize("rate", ["0", "-1", "x", "nan"])
def test_what_is_no_rate_is_refused(rate: str) -> None:
    result = CliRunner().invoke(command, ["--output-tokens", "1", "--card-rate", rate])

    assert result.exit_code == 2
