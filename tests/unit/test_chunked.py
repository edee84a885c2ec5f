"""The chunked framing: the same body however its bytes are cut, and an end told by it alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from worker.upstream.chunked import Chunked


def framed(parts: list[bytes], end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


def fed(data: bytes, cuts: list[int]) -> tuple[bytes, Chunked]:
    reader, places = Chunked(), sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [reader.feed(data[low:high]) for low, high in pairwise(places)]
    return b"".join(pieces), reader


PARTS = st.lists(st.binary(min_size=1, max_size=40) | st.just(b"\r\n0\r\n\r\n"), max_size=6)
CUTS = st.lists(st.integers(min_value=0, max_value=400), max_size=12)
ENDS = st.sampled_from([b"0\r\n\r\n", b"0;x=1\r\nA: b\r\nC: d\r\n\r\n", b"000 \r\n\r\n"])


@given(PARTS, CUTS, ENDS, st.binary(max_size=9))
def test_a_body_is_the_same_however_it_is_cut(
    parts: list[bytes], cuts: list[int], end: bytes, behind: bytes
) -> None:
    body, reader = fed(framed(parts, end), cuts)
    assert body == b"".join(parts)
    assert reader.over
    assert not reader.broken
    assert reader.rest == b""


@given(PARTS, CUTS, st.integers(min_value=1, max_value=400))
def test_a_cut_body_is_never_over(parts: list[bytes], cuts: list[int], lost: int) -> None:
    whole = framed(parts)
    body, reader = fed(whole[: max(0, len(whole) - lost)], cuts)
    assert b"".join(parts).startswith(body)
    assert not reader.over
    assert not reader.broken


def test_what_stands_behind_the_body_is_kept_apart() -> None:
    reader = Chunked()
    assert reader.feed(framed([b"a"]) + b"HTTP/1.1 200") == b"a"
    assert (reader.over, reader.rest) == (True, b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "bad",
    [b"2\r\nabc\r\n", b"x\r\n", b"\r\n", b"-1\r\n", b"+1\r\na\r\n", b"0x1\r\na\r\n", b"1\na\n"],
)
def test_what_came_before_a_broken_chunk_is_handed_on(bad: bytes) -> None:
    reader = Chunked()
    assert reader.feed(framed([b"good"], b"") + bad).startswith(b"good")
    assert reader.broken
    assert not reader.over


def test_lines_without_an_end_are_bounded() -> None:
    for begun in (b"1;" + b"x" * 20_000, b"0\r\n" + b"a: b\r\n" * 20_000):
        reader = Chunked()
        reader.feed(begun)
        assert reader.broken
