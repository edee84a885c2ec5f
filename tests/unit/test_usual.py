"""The usual read is known for what it is, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from worker.upstream.chunked import Chunked
from worker.upstream.sse import Decoder
from worker.upstream.usual import event_in

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
    assert event_in(framed(b'data: {"a":"\xc3\xa4"}\n\n')) == b'{"a":"\xc3\xa4"}'
    assert event_in(framed(b"event: x\ndata: {}\n\n")) == b"{}"
    assert event_in(b"0A\r\ndata: {}\n\n\r\n") == b"{}"


@pytest.mark.parametrize(
    "read",
    [
        framed(b"data: a\n\n")[:-1],
        framed(b"data: a\n\n") * 2,
        framed(b"data: a\n\ndata: b\n\n"),
        framed(b"data: a\ndata: b\n\n"),
        framed(b"event: x\rdata: a\ndata: a\n\n"),
        framed(b"event: x\ndata: a\n\n")[3:],
        framed(b"data: a\rdata: b\n\n"),
        framed(b"data: a\n") + framed(b"\n"),
        b"9\r\ndata: a\n\n\r\n" + b"x",
        b"8;x=y\r\ndata: a\n\n\r\n",
        b"7\r\ndata: a\n\n\r\n",
        b"",
    ],
)
def test_any_other_read_is_not(read: bytes) -> None:
    assert event_in(read) is None


@given(body=PIECES, read=PIECES, whole=st.booleans())
def test_framing_and_decoder_would_make_the_same_of_it(
    body: bytes, read: bytes, whole: bool
) -> None:
    read = framed(body) if whole and body else read
    found = event_in(read)
    assert found is None or slowly(read) == [found]
