"""Lists on a terminal: one line a row, aligned, and readable on a narrow one as well.

Where there is no room, columns that may be cut lose their ends first, and then whole columns go,
those that tell least before the others. An id keeps so much of its start as is enough to name it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.cli.columns import column as cells_of, fitting, harmless

_GAP = "  "
_CUT = "…"
_IN_ONE_LINE = {0x09: 0x2409, 0x0A: 0x240A}
#: From so many cells on there is room for a text beside its head.
_WIDE = 60
_LEAST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column and what may become of it where there is no room."""

    head: str
    right: bool = False
    #: Cells it may be cut to, its head at least; 0: it is never cut.
    least: int = 0
    #: Columns go in this order, the lowest first; 0: it stays.
    goes: int = 0


def counted(count: int, one: str, many: str = "") -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def screen_width() -> int | None:
    """Cells of a line of stdout; None when nobody looks at it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def hanging(head: str, text: str, width: int | None) -> str:
    """`head` and the text behind it, wrapped so that nothing but heads stands below heads. On a
    narrow screen the text has the lines below its head for itself."""
    if width is None:
        return head + text
    indent, lead = (" " * len(head), head) if width >= _WIDE else ("  ", f"{head.rstrip()}\n  ")
    kept = {"break_long_words": False, "break_on_hyphens": False}
    folded = textwrap.wrap(text, max(_LEAST, width - len(indent)), **kept)  # type: ignore[arg-type]
    return lead + f"\n{indent}".join(folded)


def lines_of(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    """The head and the rows, none longer than `width` as long as anything can be given up."""
    told = [[harmless(cell).translate(_IN_ONE_LINE) for cell in row] for row in rows]
    table = [[each.head for each in columns], *told]
    widths = [max(_cells(row[at]) for row in table) for at in range(len(columns))]
    shown = _room(columns, widths, width)
    return [_line(columns, row, shown) for row in table]


def _room(columns: Sequence[Column], widths: Sequence[int], width: int | None) -> dict[int, int]:
    """The columns that are shown, and the cells each gets."""
    shown = dict(enumerate(widths))
    if width is None:
        return shown
    leaving = sorted((at for at in shown if columns[at].goes), key=lambda at: columns[at].goes)
    while not _cut(columns, shown, width) and leaving:
        del shown[leaving.pop(0)]
        shown = {at: widths[at] for at in shown}
    return shown


def _cut(columns: Sequence[Column], shown: dict[int, int], width: int) -> bool:
    """Whether the columns fit, once those that may be are cut, from the one with most to give."""
    over = sum(shown.values()) + len(_GAP) * (len(shown) - 1) - width
    least = {at: max(columns[at].least, len(columns[at].head)) for at in shown if columns[at].least}
    while over > 0 and least:
        at = max(least, key=lambda each: shown[each] - least[each])
        if shown[at] <= least[at]:
            break
        shown[at] -= 1
        over -= 1
    return over <= 0


def _line(columns: Sequence[Column], row: Sequence[str], shown: dict[int, int]) -> str:
    parts = []
    for at, width in shown.items():
        text = row[at] if _cells(row[at]) <= width else fitting(row[at], width - 1) + _CUT
        blank = " " * (width - _cells(text))
        parts.append(blank + text if columns[at].right else text + blank)
    return _GAP.join(parts).rstrip()


def _cells(text: str) -> int:
    return cells_of(text, sys.maxsize)
