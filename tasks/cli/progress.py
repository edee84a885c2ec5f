"""How far a long piece of work is: a bar on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.bench.sample import Sample
from tasks.cli.prepare import say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: In a pipe, a line at least this many seconds after the last one.
_LINE_S = 10.0
#: Cells a line needs for a bar beside the words.
_WIDE = 80


@contextmanager
def progress() -> Iterator[Lines | Bar]:
    """Whatever suits stderr."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        with _drawn() as drawing:
            yield Bar(drawing)
    else:
        yield Lines()


class Lines:
    """Plain lines, none of them sooner than ten seconds after the last."""

    def __init__(self) -> None:
        self._title, self._done, self._of, self._bad = "", 0, 0, 0
        self._said_at = time.monotonic()

    def say(self, line: str) -> None:
        say(line)

    def phase(self, title: str, done: int, of: int) -> None:
        self._title, self._done, self._of, self._bad = title, done, of, 0
        say(
            f"{title}: {done:,} of {of:,} samples are there" if done else f"{title}: {of:,} samples"
        )
        self._said_at = time.monotonic()

    def sample(self, sample: Sample, spent: str) -> None:
        self._done += 1
        self._bad += not sample.good
        if self._done == self._of or time.monotonic() - self._said_at >= _LINE_S:
            self._said_at = time.monotonic()
            say(f"{self._title}: {self._done:,} of {self._of:,}, {self._bad:,} not whole, {spent}")


class Bar:
    """On a terminal; lines of their own go above it."""

    def __init__(self, drawing: Progress) -> None:
        self._drawing = drawing
        self._row: TaskID | None = None
        self._bad = 0

    def say(self, line: str) -> None:
        self._drawing.console.print(f"longstream: {line}", highlight=False, markup=False)

    def phase(self, title: str, done: int, of: int) -> None:
        self._bad = 0
        self._row = self._drawing.add_task(title, total=of, completed=done, bad=0, spent="")

    def sample(self, sample: Sample, spent: str) -> None:
        assert self._row is not None
        self._bad += not sample.good
        self._drawing.update(self._row, advance=1, bad=self._bad, spent=spent)


@contextmanager
def _drawn() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    wide = console.width >= _WIDE
    columns = (
        TextColumn("{task.description}"),
        *([BarColumn()] if wide else []),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bad]} not whole"),
        *([TextColumn("{task.fields[spent]}", style="dim"), TimeRemainingColumn()] if wide else []),
    )
    with Progress(*columns, console=console) as drawing:
        yield drawing
