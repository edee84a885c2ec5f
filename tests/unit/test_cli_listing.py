"""Lists fit their screen: ends are cut and columns go, but never what is there to be copied."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tasks.cli.columns import column
from tasks.cli.listing import Column, counted, hanging, lines_of

COLUMNS = (
    Column(head="job"),
    Column(head="what", least=6),
    Column(head="model", least=4, goes=2),
    Column(head="characters", right=True, goes=1),
)
ROWS = [
    ("review-42", "generate", "gpt-5.5-codex", "1,433"),
    ("5010fe7d199c", "refactor src/a.py and 1 more", "sim:slow", "-"),
]


def test_numbers_stand_below_each_other_and_nothing_trails() -> None:
    assert lines_of(COLUMNS, ROWS, None) == [
        "job           what                          model          characters",
        "review-42     generate                      gpt-5.5-codex       1,433",
        "5010fe7d199c  refactor src/a.py and 1 more  sim:slow                -",
    ]


def test_ends_are_cut_before_columns_go() -> None:
    assert lines_of(COLUMNS, ROWS, 50) == [
        "job           what         model        characters",
        "review-42     generate     gpt-5.5-co…       1,433",
        "5010fe7d199c  refactor s…  sim:slow              -",
    ]


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (80, ["job", "what", "model", "characters"]),
        (40, ["job", "what", "model", "characters"]),
        (30, ["job", "what", "model"]),
        (22, ["job", "what"]),
    ],
)
def test_columns_go_in_their_order(width: int, heads: list[str]) -> None:
    assert lines_of(COLUMNS, ROWS, width)[0].split() == heads


@given(st.integers(20, 90), st.lists(st.tuples(*[st.text(max_size=30)] * 3), max_size=3))
def test_no_line_is_longer_than_the_screen(width: int, rows: list[tuple[str, ...]]) -> None:
    told = lines_of(COLUMNS, [("5010fe7d199c", *row) for row in rows], width)

    assert len(told) == len(rows) + 1
    assert all(column(line, 10_000) <= width for line in told)
    assert all(line.startswith("5010fe7d199c") for line in told[1:])


def test_one_is_not_many() -> None:
    assert [counted(n, "entry", "entries") for n in (0, 1, 2000)] == [
        "0 entries",
        "1 entry",
        "2,000 entries",
    ]


def test_a_long_text_stays_beside_its_head_or_below_it() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert hanging("ok    clock ", text, None) == f"ok    clock {text}"
    assert hanging("ok    clock ", text, 60).splitlines()[1].startswith(" " * 12 + "eleven")
    assert hanging("ok    clock ", text, 30).splitlines() == [
        "ok    clock",
        "  one two three four five six",
        "  seven eight nine ten eleven",
        "  twelve thirteen",
    ]
