"""Which lines two texts have in common, in time that stays small for large files.

`difflib` alone takes half a minute for a file of 36,000 lines with every fourth line changed. So
lines that occur once on both sides are paired first, and divide the texts into pieces; `difflib`
gets only pieces that are small. A large piece without any such line counts as replaced whole: the
diff is longer than it could be then, and still right.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

Piece = tuple[int, int, int, int]

#: Lines on one side times lines on the other that difflib may compare.
_SMALL = 1_000_000


class LineMatcher(difflib.SequenceMatcher[str]):
    """A `SequenceMatcher` of two lists of lines that finds its matching blocks as said above."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self._blocks = _blocks(before, after)
        super().__init__(None, before, after)

    def get_matching_blocks(self) -> list[difflib.Match]:
        return self._blocks


def _blocks(before: Sequence[str], after: Sequence[str]) -> list[difflib.Match]:
    blocks: list[difflib.Match] = []
    for start, other, size in sorted(_matches(before, after)):
        last = blocks[-1] if blocks else None
        if last and (last.a + last.size, last.b + last.size) == (start, other):
            blocks[-1] = difflib.Match(last.a, last.b, last.size + size)
        else:
            blocks.append(difflib.Match(start, other, size))
    return [*blocks, difflib.Match(len(before), len(after), 0)]


def _matches(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    pieces: list[Piece] = [(0, len(before), 0, len(after))]
    while pieces:
        low, high, other_low, other_high = pieces.pop()
        head = _common(before, after, range(low, high), range(other_low, other_high))
        if head:
            yield low, other_low, head
        low, other_low = low + head, other_low + head
        tail = _common(
            before, after, range(high - 1, low - 1, -1), range(other_high - 1, other_low - 1, -1)
        )
        high, other_high = high - tail, other_high - tail
        if tail:
            yield high, other_high, tail
        piece = (low, high, other_low, other_high)
        anchors = _anchors(before, after, piece)
        if anchors:
            pieces += _divided(piece, anchors)
        elif (high - low) * (other_high - other_low) <= _SMALL:
            yield from _by_difflib(before, after, piece)


def _common(before: Sequence[str], after: Sequence[str], here: range, there: range) -> int:
    """How many lines from the start of the two ranges are equal."""
    count = 0
    for i, j in zip(here, there, strict=False):
        if before[i] != after[j]:
            break
        count += 1
    return count


def _divided(piece: Piece, anchors: list[tuple[int, int]]) -> list[Piece]:
    """The pieces between anchors; each but the first begins with its anchor."""
    low, high, other_low, other_high = piece
    starts = [(low, other_low), *anchors]
    ends = [*anchors, (high, other_high)]
    return [(a, b, c, d) for (a, c), (b, d) in zip(starts, ends, strict=True)]


def _anchors(before: Sequence[str], after: Sequence[str], piece: Piece) -> list[tuple[int, int]]:
    """Lines that occur once in both sides of the piece: the most that are in the same order."""
    low, high, other_low, other_high = piece
    once = _once(before, low, high)
    other_once = _once(after, other_low, other_high)
    return _rising([(i, other_once[line]) for line, i in once.items() if line in other_once])


def _once(lines: Sequence[str], low: int, high: int) -> dict[str, int]:
    counts = Counter(lines[low:high])
    return {lines[i]: i for i in range(low, high) if counts[lines[i]] == 1}


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs whose second numbers rise; the first ones rise already."""
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(ends, value)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        last[length : length + 1] = [index]
    run: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(pairs[index])
        index = previous[index]
    return run[::-1]


def _by_difflib(
    before: Sequence[str], after: Sequence[str], piece: Piece
) -> Iterator[tuple[int, int, int]]:
    low, high, other_low, other_high = piece
    matcher = difflib.SequenceMatcher(None, before[low:high], after[other_low:other_high])
    for start, other, size in matcher.get_matching_blocks():
        if size:
            yield low + start, other_low + other, size
