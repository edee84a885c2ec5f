"""Where a terminal's cursor stands after a line of text.

Only as exact as terminals agree: on joined emoji they do not, and then a line may be taken for a
cell or two longer than it is.
"""

from __future__ import annotations

import unicodedata

TAB = 8

#: Letters that reorder their line: an answer must not be able to show other than what it says.
_REORDERING = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: 0x2421} | dict.fromkeys([*range(128, 160), *_REORDERING], 0xFFFD)


def harmless(text: str) -> str:
    """The text with every control character but newline and tab made visible: what a model or a
    provider says must not be able to drive the terminal."""
    return text.translate(_VISIBLE)


def width(char: str) -> int:
    """The cells a character takes."""
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def column(line: str, columns: int) -> int:
    """The column after `line`; `columns` when the last cell was filled
    and the terminal wraps only with the next character."""
    at = 0
    for char in line:
        if char == "\t":
            at = min((at // TAB + 1) * TAB, columns - 1)
            continue
        cells = width(char)
        if at + cells > columns:
            at = 0
        at += cells
    return at


def fitting(line: str, cells: int) -> str:
    """As much of the start of `line` as fits."""
    used = 0
    for index, char in enumerate(line):
        used += width(char)
        if used > cells:
            return line[:index]
    return line
