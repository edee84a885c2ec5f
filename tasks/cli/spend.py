"""`longstream spend`: what was spent, and what of it was thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
_HEADS = ("attempts", "input", "output", "reasoning", "wasted", "cost")


@click.command(epilog=_EPILOG)
@click.option("--by", type=click.Choice(_BY), default="day", show_default=True)
@click.option("--since", help="The first day, as 2026-11-30, or 7d.  [default: 30d]")
@click.option("--until", help="The last day.  [default: today]")
@click.option("--tenant", help="Only this tenant.")
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
    rows = [(by, *_HEADS), *(_cells(each) for each in sums)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for name, *amounts, cost in rows:
        cells = [amount.rjust(width) for amount, width in zip(amounts, widths[1:], strict=True)]
        click.echo("  ".join([name.ljust(widths[0]), *cells, cost]))
    causes: dict[str, int] = {}
    for each in sums:
        for cause, tokens in each.wasted.items():
            causes[cause] = causes.get(cause, 0) + tokens
    if causes:
        told = ", ".join(f"{cause} {tokens:,}" for cause, tokens in sorted(causes.items()))
        click.echo(f"wasted tokens by cause: {told}")
    if estimated := sum(each.money.estimated_tokens for each in sums):
        click.echo(f"{estimated:,} tokens are estimates: their streams ended before the usage came")


def _cells(each: Sum) -> tuple[str, ...]:
    from tasks.cli.columns import harmless
    from worker.ledger.totals import amount

    wasted = each.money.wasted_tokens
    counts = (each.attempts, each.input, each.output, each.reasoning, wasted)
    return harmless(each.name), *(f"{count:,}" for count in counts), amount(each.money)
