"""How a batch is shown while it runs: a bar on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tasks.cli.listing import counted
from tasks.cli.prepare import say

if TYPE_CHECKING:
    from tasks.batches.running import Progress

#: Between two lines in a pipe, and two looks of a bar, in seconds.
_LINE_S, _BAR_S = 5.0, 0.1
#: Cells a line needs for a bar beside the words.
_WIDE = 80


class Shown:
    """`lines`: how many the requests have. Blank ones among them make no difference to speak of."""

    def __init__(self, lines: int) -> None:
        self._total = lines
        self._began = time.monotonic()
        self._shown_at = self._began
        self._told = ""
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr.isatty():
            self._bar, self._task = _bar(self._total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._shown_at + (_BAR_S if self._bar is not None else _LINE_S):
            return
        self._shown_at = now
        if self._bar is None:
            if (told := self.told(progress)) != self._told:
                self._told = told
                say(f"{told}{self._eta(progress, now)}")
        else:
            said = self._said(progress)
            self._bar.update(self._task, completed=progress.written, said=said)

    def told(self, progress: Progress) -> str:
        """Where it is, in one line."""
        return f"{progress.written:,} of {self._total:,} lines; {self._said(progress)}"

    def ended(self, progress: Progress) -> str:
        """What came of it. Blank lines count only while nobody knows how many there are."""
        if progress.held:
            return self.told(replace(progress, held=""))
        return f"{counted(progress.written, 'line')} done; {self._said(progress)}"

    def _said(self, progress: Progress) -> str:
        parts = [f"{progress.in_flight} in flight"] if progress.in_flight else []
        parts += [f"{progress.failed:,} with an error"] if progress.failed else []
        parts += [f"{progress.before:,} from before"] if progress.before else []
        parts += [told for told in (progress.held, progress.waits) if told]
        return ", ".join([*parts, str(progress.cost)])

    def _eta(self, progress: Progress, now: float) -> str:
        new = progress.written - progress.before
        if not new or progress.waits:
            return ""
        left_s = (self._total - progress.written) * (now - self._began) / new
        minutes, seconds = divmod(int(left_s), 60)
        return f"; about {minutes // 60}:{minutes % 60:02}:{seconds:02} left"


def _bar(total: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    console = Console(stderr=True)
    drawn = (BarColumn(), TimeRemainingColumn(elapsed_when_finished=True))
    # What is left of the line is for words; a narrow one has no room for pictures.
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        *(drawn if console.width >= _WIDE else ()),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False, table_column=rest),
    )
    bar = Progress(*columns, console=console, transient=True, expand=True)
    return bar, bar.add_task("", total=total, said="")
