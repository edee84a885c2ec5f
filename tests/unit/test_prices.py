"""The price list, and what the user's file says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from configuration import ONE_KEY, given, problems_of

from settings.prices import Price, price_of, published

PUBLISHED = {
    "claude-sonnet-4.5": 15.00,
    "gpt-4.1": 8.00,
    "gemini-2.5-flash": 2.50,
    "deepseek-v3.2": 0.42,
    "gpt-5.5-codex": 12.00,
}


def test_the_list_has_the_published_output_prices_and_no_other_figure() -> None:
    found = {each.models[0]: each.price for each in published()}

    assert {model: price.output for model, price in found.items()} == PUBLISHED
    assert all(price.input is price.cached_input is None for price in found.values())


def test_every_published_price_has_a_source_and_a_date() -> None:
    assert all(each.price.source and each.price.date for each in published())


def test_only_the_price_that_was_published_as_about_is_approximate() -> None:
    rough = [each.models[0] for each in published() if each.price.approximate]

    assert rough == ["gpt-5.5-codex"]


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-5.5", "GPT-4.1", "x/gpt-4.1", ""])
def test_a_model_that_is_not_listed_has_no_price(model: str) -> None:
    assert not price_of(model, {}).known


def test_a_dated_release_has_the_price_of_its_model() -> None:
    assert price_of("gpt-4.1-2025-04-14", {}).output == 8.00


def test_the_users_figure_wins_and_the_others_stay() -> None:
    settings = given('[prices."gpt-4.1"]\ninput = 2\nsource = "my contract"\n')

    price = settings.price("gpt-4.1")
    assert (price.input, price.cached_input, price.output) == (2.0, None, 8.0)
    assert price.source == "my contract"


def test_the_first_pattern_that_fits_has_the_say() -> None:
    own = {"own-big": Price(output=3.0), "own-*": Price(input=1.0, output=2.0)}

    assert price_of("own-big", own).output == 3.0
    assert price_of("own-small", own).output == 2.0


def test_a_price_of_zero_is_known() -> None:
    settings = given('[prices."own-*"]\ninput = 0\noutput = 0.0\n')

    assert settings.price("own-x").known
    assert settings.price("own-x").output == 0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('output = "3"', "prices.gpt-x.output: expected a number from 0 to 1000000, got '3'"),
        ("output = -1", "prices.gpt-x.output: expected a number from 0 to 1000000, got -1"),
        ("output = nan", "prices.gpt-x.output: expected a number from 0 to 1000000, got a very"),
        ("outputs = 1", "prices.gpt-x.outputs: unknown setting, did you mean 'output'?"),
        ('source = "a"', "prices.gpt-x: has no figure: set input, cached_input or output"),
    ],
)
def test_a_price_that_cannot_be_read_is_a_problem(line: str, problem: str) -> None:
    problems = problems_of(f"[prices.gpt-x]\n{line}\n")

    assert any(said.startswith(problem) for said in problems), problems


def test_a_price_that_is_no_table_is_a_problem() -> None:
    assert problems_of('[prices]\n"gpt-x" = 3\n') == (
        "prices.gpt-x: expected a table, got 3 (longstream.toml)",
    )


@pytest.mark.parametrize("page", ["cost.md", "routing.md"])
def test_the_examples_of_the_documentation_load(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text("utf-8")
    blocks = [block.split("```")[0] for block in text.split("```toml\n")[1:]]
    assert blocks

    for block in blocks:
        assert given(block + ONE_KEY).pools
