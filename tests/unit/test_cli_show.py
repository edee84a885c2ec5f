"""What `jobs` and `show` tell a person of a job."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tasks.cli.jobs import _ago, _show
from tasks.cli.show import _about, _spent
from worker.job.records import Record, State
from worker.ledger.spending import Spending
from worker.log.entries import Tokens


def job(**more: Any) -> Record:
    fields: dict[str, Any] = {
        "id": "5010fe7d199c",
        "state": State.ENDED,
        "outcome": "completed",
        "task": "tasks.generate",
        "label": "generate",
        "model": "gpt-5.5-codex",
        "pool": "main",
        "key": "acme-1",
        "worker": "w-2",
        "attempt": 2,
        "length": 1433,
        "created_ms": 1_796_028_484_580,
        "usage": Tokens(input=7, output=349, reasoning=40),
        "spent": (
            Spending(
                attempt=1,
                at_ms=1,
                key="acme-1",
                model="gpt-5.5-codex",
                tokens=Tokens(output=12),
                wasted="worker lost",
                estimated=True,
            ),
        ),
    }
    return Record(**(fields | more))


def told(record: Record) -> dict[str, str]:
    return {name.strip(): said for name, said in (*_about(record), *_spent(record)) if said}


def test_a_job_is_shown_in_words_and_units() -> None:
    shown = told(job())

    assert shown["state"] == "completed"
    assert shown["key"] == "acme-1"
    assert shown["attempts"] == "2, the last on w-2"
    assert shown["answer"] == "1,433 characters"
    assert shown["tokens"] == "7 input, 349 output (40 reasoning)"
    assert shown["attempt 1"] == (
        "0 input, 12 output, wasted: worker lost, an estimate; gpt-5.5-codex, key acme-1"
    )
    assert shown["submitted"].startswith("2026-11-30 ")
    assert not any(name.endswith("_ms") for name in shown)
    assert not {"started", "ended", "deadline", "due"} & shown.keys()


@pytest.mark.parametrize(
    ("more", "name", "says"),
    [
        ({"state": State.WAITING, "outcome": "", "why": "429"}, "state", "waiting: 429"),
        ({"outcome": "failed", "reason": "no"}, "state", "failed: no"),
        ({"outcome": "cancelled", "reason": "cancelled"}, "state", "cancelled"),
        ({"pool": "simulator", "key": "simulator"}, "key", "simulator, simulated"),
        ({"served_by": "lighter"}, "model", "gpt-5.5-codex, answered by lighter"),
        ({"max_cost_micros": 500_000}, "at most", "0.5 USD"),
    ],
)
def test_what_is_special_is_said(more: dict[str, Any], name: str, says: str) -> None:
    assert told(job(**more))[name] == says


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (-3, "0 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (200_000, "2 d ago"),
    ],
)
def test_an_age_has_one_unit(seconds: float, says: str) -> None:
    assert _ago(seconds) == says


def test_a_list_has_one_line_for_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    fresh = job(created_ms=int(time.time() * 1000) - 90_000)
    _show([fresh, job(state=State.RUNNING, outcome="", length=0, label="x" * 80)], 100)
    head, first, second = capsys.readouterr().out.splitlines()

    assert head.split()[0] == "job"
    assert "completed" in first
    assert first.endswith("1,433  1 min ago")
    assert "running" in second
    assert len(second) <= 100
