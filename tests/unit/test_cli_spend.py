"""How `longstream spend` is asked and answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from settings.model import Settings
from settings.prices import Price
from tasks.cli.spend import _days, _print
from worker.ledger.totals import Row, grouped, shown, summed

TODAY = datetime.now(UTC).date()
SETTINGS = Settings(prices={"m": Price(input=1.0, output=2.0)})


def row(**more: object) -> Row:
    fields = {"day": "2026-11-30", "tenant": "a", "model": "m", "key": "k", "task": "t"}
    counts = {"cause": "", "attempts": 1, "input": 1000, "output": 500_000}
    return Row(**(fields | counts | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("since", "days"), [(None, 30), ("1d", 1), ("7d", 7), (TODAY.isoformat(), 1)]
)
def test_days_are_counted_with_today(since: str | None, days: int) -> None:
    first, last = _days(since, None)

    assert last == TODAY
    assert last - first == timedelta(days=days - 1)


@pytest.mark.parametrize("since", ["0d", "d", "x", "2026-13-01", "99999d", "tomorrow"])
def test_what_is_no_day_is_refused_with_an_example(since: str) -> None:
    with pytest.raises(click.UsageError, match=rf"--since: expected a day as {TODAY}, or 7d"):
        _days(since, None)


def test_a_first_day_behind_the_last_one_is_refused() -> None:
    with pytest.raises(click.UsageError, match="is after"):
        _days("2026-02-02", "2026-02-01")


def test_waste_and_estimates_are_told_below_the_sums(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(), row(tenant="b", cause="worker lost", estimated=501_000), row(model="?")]

    _print("tenant", grouped(rows, "tenant", SETTINGS))

    head, first, second, *below = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "tenant"
    assert first.split() == ["a", "2", "2,000", "1,000,000", "0", "0", "1.00", "+", "?"]
    assert second.split() == ["b", "1", "1,000", "500,000", "0", "501,000", "1.00"]
    assert below == [
        "?: 501,000 tokens of no known price; add it under [prices] in longstream.toml",
        "wasted tokens by cause: worker lost 501,000",
        "501,000 tokens are estimates: their streams ended before the usage came",
    ]


def test_days_stay_in_their_order_and_others_begin_with_the_dearest() -> None:
    rows = [row(day="2026-11-02", tenant="little", output=1), row(day="2026-11-01", tenant="much")]

    assert [each.name for each in grouped(rows, "day", SETTINGS)] == ["2026-11-01", "2026-11-02"]
    assert [each.name for each in grouped(rows, "tenant", SETTINGS)] == ["much", "little"]


def test_what_a_job_costs_is_told_with_its_waste() -> None:
    money = summed("", [row(), row(cause="cancelled", estimated=501_000)], SETTINGS).money

    assert shown(money) == "2.00 USD; wasted: 1.00 USD, 501,000 tokens; 501,000 tokens estimated"
