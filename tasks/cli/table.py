"""A run on a terminal: one row for each file, as many as fit, and a line of sums.

Rows are those of most interest now: files a model is at, then what went wrong, what comes next in
line, and what was done last. They stand in the order of the run.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tasks.cli.boards import Scene, cost_so_far, totals
from tasks.cli.columns import harmless
from tasks.cli.deliver import line_of_file
from tasks.edits.paths import shown
from tasks.runs.delivery import BAD, FileDone
from tasks.runs.progress import JobView
from worker.ledger.cost import small
from worker.ledger.spending import text_tokens

_REDRAWS_A_SECOND = 5
#: Lines of the screen that are not rows: the head, the sums, a hint, and one to spare.
_FRAME = 4
#: Further down the line nobody looks.
_FAR = 10**9
#: Kept free at the end of lines: what a terminal echoes of Ctrl-C must not begin a line of its own,
#: or the next redraw would start one line too low.
_ECHO = 4
_FILE, _STATE = 12, 9
#: The other columns with the cells each takes, and in which order they go where there is no room.
_FIGURES = {"line": 6, "thinking": 8, "tokens": 7, "USD": 8, "key": 12}
_LEAVING = ("key", "USD", "line", "thinking", "tokens")

_STYLES: dict[str, str] = {
    "writing": "bold cyan",
    "thinking": "cyan",
    "ready": "green",
    "written": "green",
    "changed": "green",
    "put back": "yellow",
    "unchanged": "dim",
    "waiting": "dim",
    "next": "dim",
    "lost": "yellow",
    **dict.fromkeys(BAD, "bold red"),
}


class TableBoard:
    """Draws by itself several times a second, from what the scene holds."""

    def __init__(self, scene: Scene, console: Console | None = None) -> None:
        self._scene = scene
        self._console = console or Console(stderr=True)
        self._done_at: dict[str, int] = {}
        self._closed = False
        self._live = Live(
            console=self._console,
            get_renderable=self.table,
            refresh_per_second=_REDRAWS_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def changed(self, view: JobView) -> None:
        return

    def file(self, done: FileDone) -> None:
        self._done_at[done.path] = len(self._done_at)
        if done.state in BAD:
            self.say(line_of_file(done))

    def say(self, line: str) -> None:
        text = Text(f"longstream: {harmless(line)}")
        self._live.console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._closed = True
        self._live.stop()

    def table(self) -> Table:
        """The screen as it should be now."""
        rows = self._rows(max(3, self._console.height - _FRAME))
        width = max(1, self._console.width - _ECHO)
        table = Table(box=None, pad_edge=False, expand=True, show_footer=False, width=width)
        table.add_column("file", ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column("state", no_wrap=True, min_width=_STATE)
        heads = _fitting(width)
        for head in heads:
            justify: Literal["left", "right"] = "left" if head == "key" else "right"
            table.add_column(head, justify=justify, no_wrap=True, max_width=16, overflow="ellipsis")
        for view, path in rows:
            state = self._state(view, path)
            figures = self._figures(view, path, state)
            told = Text(state, _STYLES.get(state, ""))
            table.add_row(Text(shown(path)), told, *(figures[head] for head in heads))
        hint = "" if self._closed else "; Ctrl-C leaves it running"
        table.caption = Text(f"{totals(self._scene)}{hint}", "dim")
        table.caption_justify = "left"
        return table

    def _rows(self, room: int) -> list[tuple[JobView, str]]:
        views = list(self._scene.views.values())
        rows = [(view, path) for view in views for path in view.paths]
        if len(rows) <= room:
            return rows
        order = sorted(range(len(rows)), key=lambda at: self._rank(*rows[at], at))
        return [rows[at] for at in sorted(order[:room])]

    def _rank(self, view: JobView, path: str, at: int) -> tuple[int, int]:
        state = self._state(view, path)
        if state in ("writing", "thinking"):
            return 0, at
        if state in BAD or state == "lost":
            return 1, at
        if path in self._scene.done:
            return 3, -self._done_at.get(path, 0)
        if view.state == "running":
            return 2, 0
        return 2, _FAR if view.place is None else view.place

    def _state(self, view: JobView, path: str) -> str:
        done = self._scene.done.get(path)
        if done is not None:
            return done.state
        if path in view.ready:
            return "ready"
        if view.state != "running":
            return view.state
        if path == view.writing:
            return "writing"
        first = next((each for each in view.paths if each not in view.ready), "")
        return "thinking" if path == first and not view.chars else "next"

    def _figures(self, view: JobView, path: str, state: str) -> dict[str, str]:
        """The cells behind the state, by their heads. What is the job's stands in the row it is at,
        but its cost, which its files share."""
        at_it = state in ("writing", "thinking")
        place = f"{view.place + 1:,}" if state == "waiting" and view.place is not None else ""
        thinking = f"{view.thinking:,}" if at_it and view.thinking else ""
        tokens = self._tokens(view, path, state)
        shown_tokens = f"{tokens:,}" if tokens else ""
        key = view.key if at_it or path in view.ready else ""
        cost = self._cost(view, path)
        return {
            "line": place,
            "thinking": thinking,
            "tokens": shown_tokens,
            "USD": cost,
            "key": key,
        }

    def _tokens(self, view: JobView, path: str, state: str) -> int:
        """About how many the file has so far."""
        if path in view.ready:
            return text_tokens(len(view.ready[path]))
        if state != "writing":
            return 0
        return text_tokens(max(0, view.chars - sum(len(text) for text in view.ready.values())))

    def _cost(self, view: JobView, path: str) -> str:
        """`+?`: a part of it has no known price."""
        cost = cost_so_far(view, self._scene.price)
        if not cost.usd:
            return "?" if cost.unpriced else ""
        share = small(cost.usd * Decimal(view.share_of(path)))
        return share + ("+?" if cost.unpriced else "")


def _fitting(width: int) -> list[str]:
    """The heads of the columns there is room for, in their order."""
    heads = list(_FIGURES)
    for head in _LEAVING:
        taken = _FILE + _STATE + sum(_FIGURES[each] + 1 for each in heads) + 1
        if taken <= width:
            break
        heads.remove(head)
    return heads
