"""What a long command draws fits the line it has."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tasks.cli.batch_progress import _bar


@pytest.mark.parametrize(("columns", "drawn"), [("40", False), ("79", False), ("100", True)])
def test_a_narrow_line_tells_the_count_and_draws_no_bar(
    columns: str, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    bar, task = _bar(60)
    bar.update(task, completed=7, said="53 in flight, price unknown (215 tokens) and more of it")
    paper = Console(file=io.StringIO(), width=int(columns), color_system=None)
    with paper.capture() as capture:
        paper.print(bar.get_renderable())
    (line,) = capture.get().splitlines()

    assert len(line) <= int(columns)
    assert " 7/60 53 in flight" in line
    assert ("━" in line) == drawn
