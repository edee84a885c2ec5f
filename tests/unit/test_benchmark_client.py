"""The benchmark of the client runs, with and without those it is compared to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.quirk_table.catalogue import QUIRKS
from tests.benchmarks.quirk_table.judging import Verdict, judge
from tests.benchmarks.quirk_table.right import Right, fails
from tests.benchmarks.quirk_table.seen import Seen, Sent
from tests.harness.benchmark import Target, installed

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "benchmarks" / "client.py"
SAID = Sent(posts=1, visible="abcd", visible_sent="ab", usage=(1, 2, 0), gaps_s=())
TWICE = Sent(posts=2, visible="abcd", visible_sent="abcd", usage=(1, 2, 0), gaps_s=(0.5,))


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    command = [sys.executable, str(PROGRAM), "--quick", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.timeout(180)
def test_a_quick_run_measures_this_client_and_says_who_is_missing(result: dict[str, Any]) -> None:
    there = installed("openai")

    assert ("openai" in result["missing"]) is not there
    measured = {cell["contender"] for cell in result["decoding"] if cell["value"] > 0}
    assert ("openai SDK as shipped" in measured) is there
    assert {"longstream", "naive lines + json"} <= measured
    told = {target["name"]: target["measured"] is not None for target in result["targets"]}
    assert told["quirks right"]
    assert told["decode, JSON and pick"] is there


@pytest.mark.timeout(180)
def test_this_client_is_right_in_every_quirk_of_a_quick_run(result: dict[str, Any]) -> None:
    wrong = [
        run
        for row in result["quirks"]
        for run in row["runs"]
        if run["client"] == "longstream" and run["verdict"] != "right"
    ]

    assert wrong == []
    assert len(result["quirks"]) > 40


def test_the_catalogue_has_every_number_once() -> None:
    numbers = [f"Q{n:02}" for n in range(1, 54)] + [f"R{n}" for n in range(1, 11)]

    assert [quirk.number for quirk in QUIRKS] == numbers


@pytest.mark.parametrize(
    ("right", "seen", "sent", "verdict"),
    [
        (Right(), Seen(text="abcd", finish="stop"), SAID, Verdict.RIGHT),
        (Right(), Seen(text="abc", finish="stop"), SAID, Verdict.SILENT),
        (Right(), Seen(text="abcd"), SAID, Verdict.SILENT),
        (Right(unsaid=True), Seen(text="abcd"), SAID, Verdict.RIGHT),
        (Right(), Seen(text="abcd", error="JSONDecodeError", ours=False), SAID, Verdict.LOUD),
        (Right(), Seen(text="abcd", finish="stop", hung=True), SAID, Verdict.SILENT),
        (Right(usage=True), Seen(text="abcd", finish="stop"), SAID, Verdict.SILENT),
        (Right(within_s=1), Seen(text="abcd", finish="stop", seconds=2), SAID, Verdict.SILENT),
        (Right(ends="refused"), Seen(refusal="abcd", finish="stop"), SAID, Verdict.RIGHT),
        (fails("x"), Seen(text="ab", error="x", kind="x"), SAID, Verdict.RIGHT),
        (fails("x"), Seen(text="ab", error="y", kind="y"), SAID, Verdict.LOUD),
        (fails("x"), Seen(text="ab", finish="stop"), SAID, Verdict.SILENT),
        (fails("x"), Seen(text="ab", error="KeyError", ours=False), SAID, Verdict.LOUD),
        (fails("x", posts=1), Seen(text="abcd", finish="stop"), TWICE, Verdict.SILENT),
    ],
)
def test_a_verdict_tells_loud_from_silent(
    right: Right, seen: Seen, sent: Sent, verdict: Verdict
) -> None:
    assert judge(right, seen, sent, retries=False).verdict == verdict


@pytest.mark.parametrize(
    ("right", "seen", "verdict"),
    [
        (fails("x", retry="later", delay_s=(0.4, 0.6)), Seen(text="abcd"), Verdict.RIGHT),
        (fails("x", retry="later", delay_s=(2.0, 2.0)), Seen(text="abcd"), Verdict.SILENT),
        (fails("x", retry="never"), Seen(error="RateLimitError"), Verdict.LOUD),
        (fails("x", retry="later", posts=1), Seen(text="abcd"), Verdict.SILENT),
        (fails("x", retry="later", backoff=True), Seen(text="abcd"), Verdict.RIGHT),
        (fails("x", retry="later", backoff=True), Seen(text="ab"), Verdict.SILENT),
    ],
)
def test_a_client_that_retries_is_judged_by_what_it_posted(
    right: Right, seen: Seen, verdict: Verdict
) -> None:
    assert judge(right, seen, TWICE, retries=True).verdict == verdict


@pytest.mark.parametrize(
    ("measured", "better", "ok"),
    [(60.0, "higher", True), (40.0, "higher", False), (40.0, "lower", True), (None, "lower", None)],
)
def test_a_target_that_was_not_measured_is_neither_met_nor_missed(
    measured: float | None, better: Any, ok: bool | None
) -> None:
    assert Target("t", 50.0, measured, "x", better).ok is ok


def test_the_readme_quotes_what_was_measured() -> None:
    page = (ROOT / "docs" / "client.md").read_text("utf-8").partition("## Speed")[0]
    rows = [line for line in page.splitlines() if line.startswith("|")]

    assert len(rows) == 6
    assert "\n".join(rows) in (ROOT / "README.md").read_text("utf-8")
