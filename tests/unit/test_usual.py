"""The usual read is known for what it is, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from worker.upstream.chunked import Chunked
from worker.upstream.sse import Decoder
from worker.upstream.usual import event_at

PIECES = st.lists(
    st.sampled_from(
        [
            b"data: ",
            b"data:",
            b"event: ",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b"1",
            b"a",
            b"9",
            b"{}",
            b";x",
            b" ",
        ]
    ),
    max_size=10,
).map(b"".join)


def framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def slowly(read: bytes) -> list[bytes] | None:
    """The data of all events, by framing and decoder; None unless both are as fresh as before."""
    body, decoder = Chunked(), Decoder()
    decoder.feed(b": begin\n\n")
    events = decoder.feed(body.feed(read))
    return [event.data for event in events] if body.fresh and decoder.fresh else None


def test_one_chunk_with_one_data_line_is_it() -> None:
    assert event_at(framed(b'data: {"a":"\xc3\xa4"}\n\n'), 0) == (b'{"a":"\xc3\xa4"}', 24)
    assert event_at(framed(b"event: x\ndata: {}\n\n"), 0) == (b"{}", 25)
    assert event_at(b"0A\r\ndata: {}\n\n\r\n", 0) == (b"{}", 16)


def test_it_is_found_behind_others_and_with_more_behind_it() -> None:
    read = framed(b"data: a\n\n") + framed(b"data: bc\n\n") + b"9\r\nda"

    assert event_at(read, 0) == (b"a", 14)
    assert event_at(read, 14) == (b"bc", 29)
    assert event_at(read, 29) is None


@pytest.mark.parametrize(
    "read",
    [
        framed(b"data: a\n\n")[:-1],
        framed(b"data: a\n\ndata: b\n\n"),
        framed(b"data: a\ndata: b\n\n"),
        framed(b"event: x\rdata: a\ndata: a\n\n"),
        framed(b"event: x\ndata: a\n\n")[3:],
        framed(b"data: a\rdata: b\n\n"),
        framed(b"data: a\n") + framed(b"\n"),
        b"8;x=y\r\ndata: a\n\n\r\n",
        b"7\r\ndata: a\n\n\r\n",
        b"",
    ],
)
def test_any_other_read_is_not(read: bytes) -> None:
    assert event_at(read, 0) is None


def usual(read: bytes) -> tuple[list[bytes], bytes]:
    """The data of the usual events it begins with, and the rest."""
    found, at = [], 0
    while (event := event_at(read, at)) is not None:
        data, at = event
        found.append(data)
    return found, read[at:]


@given(bodies=st.lists(PIECES.filter(bool), max_size=3), read=PIECES)
def test_framing_and_decoder_would_make_the_same_of_it(bodies: list[bytes], read: bytes) -> None:
    read = b"".join(map(framed, bodies)) + read

    found, rest = usual(read)

    assert slowly(read[: len(read) - len(rest)]) == found
