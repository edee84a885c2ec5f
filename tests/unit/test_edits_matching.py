"""Lines in common: right for every pair of texts, and quick for large ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tasks.edits.matching import LineMatcher

LINES = st.lists(st.sampled_from("abcdefgh") | st.text(max_size=2), max_size=40)


@given(LINES, LINES)
def test_blocks_are_equal_lines_in_rising_order(before: list[str], after: list[str]) -> None:
    blocks = LineMatcher(before, after).get_matching_blocks()

    assert tuple(blocks[-1]) == (len(before), len(after), 0)
    for block, following in pairwise(blocks):
        assert block.size > 0
        assert before[block.a : block.a + block.size] == after[block.b : block.b + block.size]
        assert block.a + block.size <= following.a
        assert block.b + block.size <= following.b


@given(LINES, LINES)
def test_the_steps_turn_one_text_into_the_other(before: list[str], after: list[str]) -> None:
    made: list[str] = []
    for tag, i, i_end, j, j_end in LineMatcher(before, after).get_opcodes():
        made += before[i:i_end] if tag == "equal" else after[j:j_end]

    assert made == after


@given(LINES)
def test_equal_texts_are_one_block(lines: list[str]) -> None:
    assert [op[0] for op in LineMatcher(lines, lines).get_opcodes()] == ["equal"] * bool(lines)


def test_a_moved_line_costs_only_itself() -> None:
    before = [f"line {n}" for n in range(50)]
    after = [*before[1:25], before[0], *before[25:]]

    changed = [op for op in LineMatcher(before, after).get_opcodes() if op[0] != "equal"]

    assert changed == [("delete", 0, 1, 0, 0), ("insert", 25, 25, 24, 25)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("copies", "blocks"), [(1, 9001), (2, 1)])
def test_a_large_file_with_changes_everywhere_is_quick(copies: int, blocks: int) -> None:
    """Twice the same text has no line that occurs once: it counts as replaced whole."""
    before = [line for n in range(9000) for line in (f"def f{n}():", f"    return {n}", "", "")]
    after = [line.replace("def", "async def") for line in before]

    matcher = LineMatcher([*before * copies, "old end"], [*after * copies, "new end"])

    assert len(matcher.get_matching_blocks()) == blocks
