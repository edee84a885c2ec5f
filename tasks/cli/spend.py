"""`longstream spend`: what was spent, and what of it was thrown away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tasks.cli.terms import named

if TYPE_CHECKING:
    from datetime import date

    from worker.ledger.totals import By, Sum

_EPILOG = """\b
Examples:
  longstream spend                            the last 30 days, by day
  longstream spend --by tenant --since 2026-11-01
  longstream spend --by cause                 why tokens were thrown away
  longstream spend --by model --json | jq -s 'map(.money.usd) | add'
"""

_BY = ("day", "tenant", "model", "key", "task", "cause")


@click.command(epilog=_EPILOG)
@click.option(
    "--by", type=click.Choice(_BY), default="day", show_default=True, help="What a line stands for."
)
@click.option("--since", help="The first day, as 2026-11-30, or 7d.  [default: 30d]")
@click.option("--until", help="The last day.  [default: today]")
@click.option("--tenant", callback=named, help="Only this tenant.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    by: By, since: str | None, until: str | None, tenant: str | None, as_json: bool
) -> None:
    """Show what was spent: tokens and money, with the part that was thrown away.

    Every attempt counts, also of jobs that failed or were cancelled. Days are UTC days, and the
    money is reckoned with today's prices; tokens without a known price are named, never left out.
    """
    import msgspec

    from tasks import jobs
    from tasks.cli.prepare import prepare, say

    first, last = _days(since, until)
    prepare()
    sums = jobs.spend(by, first, last, tenant=tenant)
    if as_json:
        for each in sums:
            click.echo(msgspec.json.encode(each).decode())
        return
    if not sums:
        say(f"nothing was spent from {first} to {last}")
        return
    _print(by, sums)


def _days(since: str | None, until: str | None) -> tuple[date, date]:
    from datetime import UTC, datetime, timedelta

    today = datetime.now(UTC).date()
    last = today if until is None else _day("--until", until)
    first = last - timedelta(days=29) if since is None else _day("--since", since)
    if first > last:
        raise click.UsageError(f"--since {first} is after {last}")
    return first, last


def _day(option: str, text: str) -> date:
    from datetime import UTC, date, datetime, timedelta

    today = datetime.now(UTC).date()
    if text[-1:] == "d" and text[:-1].isdecimal() and 0 < int(text[:-1]) <= 3650:
        return today - timedelta(days=int(text[:-1]) - 1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        expected = f"{option}: expected a day as {today}, or 7d"
        raise click.UsageError(f"{expected}, got {text!r}") from None


def _print(by: str, sums: list[Sum]) -> None:
    from tasks.cli.listing import Column, lines_of, screen_width

    columns = (
        Column(head=by, least=8),
        Column(head="attempts", right=True, goes=2),
        Column(head="input", right=True, goes=3),
        Column(head="output", right=True),
        Column(head="reasoning", right=True, goes=1),
        Column(head="wasted", right=True, goes=4),
        Column(head="USD", right=True),
    )
    for line in lines_of(columns, [_cells(each) for each in sums], screen_width()):
        click.echo(line)
    for line in _notes(sums):
        click.echo(line)


def _notes(sums: list[Sum]) -> Iterator[str]:
    """What the columns do not tell."""
    causes: dict[str, int] = {}
    for each in sums:
        for cause, tokens in each.wasted.items():
            causes[cause] = causes.get(cause, 0) + tokens
    if unpriced := sum(each.money.unpriced_tokens for each in sums):
        yield f"?: {unpriced:,} tokens of no known price; add it under [prices] in longstream.toml"
    if causes:
        told = ", ".join(f"{cause} {tokens:,}" for cause, tokens in sorted(causes.items()))
        yield f"wasted tokens by cause: {told}"
    if estimated := sum(each.money.estimated_tokens for each in sums):
        yield f"{estimated:,} tokens are estimates: their streams ended before the usage came"


def _cells(each: Sum) -> tuple[str, ...]:
    from worker.ledger.totals import short

    counts = (each.attempts, each.input, each.output, each.reasoning, each.money.wasted_tokens)
    return each.name, *(f"{count:,}" for count in counts), short(each.money)
