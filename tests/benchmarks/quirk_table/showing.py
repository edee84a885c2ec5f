"""The quirk table, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.quirk_table.judging import Verdict
from tests.benchmarks.quirk_table.measuring import CLIENT, SDK, Row
from tests.harness.benchmark import table


def right(rows: Sequence[Row], client: str) -> int:
    return sum(row.verdict(client) == Verdict.RIGHT for row in rows)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every quirk with its verdicts, and every run behind them."""
    return [
        {
            "quirk": row.quirk.number,
            "what": row.quirk.what,
            "right": row.quirk.right.words,
            "verdicts": {client: _word(row.verdict(client)) for client in (CLIENT, SDK)},
            "runs": [
                {
                    "scenario": run.scenario,
                    "api": run.api,
                    "client": run.client,
                    "verdict": run.judged.verdict.words,
                    "why": run.judged.why,
                }
                for run in row.runs
            ],
        }
        for row in rows
    ]


def full(rows: Sequence[Row], version: str | None) -> str:
    """All quirks as a Markdown table."""
    head = ("quirk", "what is sent", "right is", CLIENT, _sdk(version))
    lines = [
        (
            row.quirk.number,
            row.quirk.what,
            row.quirk.right.words,
            _cell(row, CLIENT),
            _cell(row, SDK),
        )
        for row in rows
    ]
    return table(head, lines)


def counts(rows: Sequence[Row], client: str) -> str:
    """How many quirks a client gets right, wrong but loud, and silently wrong."""
    seen = Counter(row.verdict(client) for row in rows)
    return "missing" if None in seen else ", ".join(str(seen[verdict]) for verdict in Verdict)


def _sdk(version: str | None) -> str:
    return f"openai {version or 'SDK'}"


def _word(verdict: Verdict | None) -> str:
    return "missing" if verdict is None else verdict.words


def _cell(row: Row, client: str) -> str:
    verdict = row.verdict(client)
    if not verdict:
        return _word(verdict)
    wrong = row.wrong(client)
    runs = sum(run.client == client for run in row.runs)
    worst = next(run for run in wrong if run.judged.verdict == verdict)
    name = worst.scenario.removeprefix("sim:")
    strong = f"**{verdict.words}**" if verdict is Verdict.SILENT else verdict.words
    return f"{strong} in {len(wrong)} of {runs} runs: {worst.judged.why} (`{name}`)"
