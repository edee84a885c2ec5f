"""`longstream cost`: what a number of tokens costs, by model and by exchange rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tasks.cli.amounts import COUNT
from tasks.cli.terms import named

if TYPE_CHECKING:
    from decimal import Decimal

    from settings.model import Settings
    from settings.prices import Price
    from worker.ledger.cost import Cost

_EPILOG = """\b
Examples:
  longstream cost --output-tokens 100M
  longstream cost --output-tokens 100M --input-tokens 2.5M --model gpt-4.1
  longstream cost --output-tokens 100M --json | jq 'select(.usd != null) | [.model, .usd]'

\b
A price nobody published is shown as unknown. Add what you know to longstream.toml:
  [prices."gpt-4.1"]
  input = 2.00             # USD per million tokens
"""


@click.command(epilog=_EPILOG)
@click.option("--output-tokens", type=COUNT, required=True, help="Tokens of answers a month.")
@click.option("--input-tokens", type=COUNT, default=0, help="Tokens of prompts a month.")
@click.option(
    "--model",
    "models",
    multiple=True,
    callback=named,
    help="Only this model; may be repeated.",
)
@click.option("--card-rate", default="7.3", show_default=True, help="CNY for a USD by card.")
@click.option("--reference-rate", default="1", show_default=True, help="CNY for a USD to compare.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a model, exact amounts.")
def command(
    output_tokens: int,
    input_tokens: int,
    models: tuple[str, ...],
    card_rate: str,
    reference_rate: str,
    as_json: bool,
) -> None:
    """Show what a month of tokens costs with each model whose price is known.

    CNY is shown twice: at the rate a card is charged, and at a reference rate (1:1, as some
    gateways bill), with what the second saves. Whole amounts are rounded down.
    """
    from settings import load
    from worker.ledger.cost import cost_of
    from worker.log.entries import Tokens

    rates = _rate("--card-rate", card_rate), _rate("--reference-rate", reference_rate)
    tokens = Tokens(input=input_tokens, output=output_tokens)
    settings = load()
    rows = [
        _row(name, price, cost_of(tokens, price), *rates)
        for name, price in _priced(settings, models)
    ]
    rows.sort(key=lambda row: (row["usd"] is None, -(row["usd"] or 0)))
    if as_json:
        _print_json(rows)
    else:
        _print(rows, output_tokens, input_tokens, rates)


def _rate(option: str, text: str) -> Decimal:
    from decimal import Decimal, InvalidOperation

    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal(0)
    if not (rate.is_finite() and 0 < rate <= 10**6):
        raise click.UsageError(f"{option}: expected a number above 0, got {text!r}")
    return rate


def _priced(settings: Settings, models: tuple[str, ...]) -> list[tuple[str, Price]]:
    """The models asked for; else those of the list and of the user's file."""
    from settings.prices import published

    if models:
        return [(model, settings.price(model)) for model in models]
    listed = [(each.models[0], settings.price(each.models[0])) for each in published()]
    known = {name for name, _ in listed}
    own = [(name, settings.price(name)) for name in settings.prices if name not in known]
    return listed + own


def _row(name: str, price: Price, cost: Cost, card: Decimal, reference: Decimal) -> dict[str, Any]:
    usd = None if cost.unpriced and not cost.usd else cost.usd
    return {
        "model": name,
        "input": price.input,
        "cached_input": price.cached_input,
        "output": price.output,
        "approximate": price.approximate,
        "source": price.source,
        "date": price.date,
        "usd": usd,
        "unpriced_tokens": cost.unpriced,
        "cny_card": None if usd is None else usd * card,
        "cny_reference": None if usd is None else usd * reference,
        "saving_percent": (1 - reference / card) * 100,
    }


def _print_json(rows: list[dict[str, Any]]) -> None:
    import json
    from decimal import Decimal

    for row in rows:
        amounts = {n: float(v) if isinstance(v, Decimal) else v for n, v in row.items()}
        click.echo(json.dumps(amounts))


def _print(
    rows: list[dict[str, Any]], output: int, given: int, rates: tuple[Decimal, Decimal]
) -> None:
    card, reference = rates
    asked = f"{output:,} output tokens" + (f" and {given:,} input tokens" if given else "")
    click.echo(f"{asked} a month, CNY at {card} (card) and at {reference} (reference)")
    heads = ("model", "USD/M output", "USD", "CNY card", "CNY reference", "saving")
    table = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(cells[i]) for cells in table) for i in range(len(heads))]
    for cells in table:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        click.echo("  ".join([first, *rest]).rstrip())
    if any(row["unpriced_tokens"] for row in rows):
        click.echo("?: of no known price; add it under [prices] in longstream.toml")
    if any(row["source"] for row in rows):
        sources = {f"{row['source']}, {row['date']}" for row in rows if row["source"]}
        click.echo(f"prices: {'; '.join(sorted(sources))}")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from worker.ledger.cost import figure, rounded

    price = "unknown" if row["output"] is None else figure(row["output"])
    if row["usd"] is None:
        return (row["model"], price, "?", "?", "?", "-")
    more = " + ?" if row["unpriced_tokens"] else ""
    about = "~" if row["approximate"] else ""
    return (
        row["model"],
        about + price,
        about + rounded(row["usd"]) + more,
        rounded(row["cny_card"]) + more,
        rounded(row["cny_reference"]) + more,
        f"{row['saving_percent']:.1f} %",
    )
