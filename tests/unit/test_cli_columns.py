from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tasks.cli.columns import column, fitting, harmless, width


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", 0),
        ("abc", 3),
        ("x" * 10, 10),
        ("x" * 11, 1),
        ("日本", 4),
        ("x" * 9 + "日", 2),
        ("e\u0301" * 3, 3),
        ("a\tb", 9),
        ("x" * 9 + "\t", 9),
    ],
)
def test_the_cursor_stands_behind_the_line(line: str, expected: int) -> None:
    assert column(line, 10) == expected


@given(st.text(st.characters(exclude_characters="\n")), st.integers(2, 200))
def test_the_cursor_is_never_off_the_screen(line: str, columns: int) -> None:
    assert 0 <= column(harmless(line), columns) <= columns


@given(st.text(), st.integers(0, 40))
def test_what_fits_is_the_longest_start_that_fits(line: str, cells: int) -> None:
    kept = fitting(line, cells)
    assert line.startswith(kept)
    assert sum(map(width, kept)) <= cells
    rest = line[len(kept) :]
    assert not rest or sum(map(width, kept + rest[0])) > cells


@given(st.text())
def test_an_answer_can_not_drive_the_terminal(text: str) -> None:
    shown = harmless(text)
    assert len(shown) == len(text)
    assert all(c in "\n\t" or c >= " " for c in shown)
    assert not set(shown) & {chr(c) for c in (0x7F, *range(128, 160), 0x202E, 0x2066)}


def test_ordinary_text_is_shown_as_it_is() -> None:
    text = "def f(x):\n\treturn 'é 日 👩‍💻'\n"
    assert harmless(text) == text
