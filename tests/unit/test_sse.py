"""The decoder keeps the WHATWG rules however the bytes are cut."""

from __future__ import annotations

import base64
import json
import random
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from worker.upstream.sse import Decoder, Event, EventTooLarge

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "sse.json").read_text())["vectors"]
BIG = "y" * 2**21


def wire(vector: dict[str, str]) -> bytes:
    if "bytes_base64" in vector and vector["bytes_base64"] is not None:
        return base64.b64decode(vector["bytes_base64"])
    return f"data:{BIG}\n\ndata:z\n\n".encode()


def expected(vector: dict[str, list[list[str]]]) -> list[tuple[str, str]]:
    if vector["name"] == "spec big 2MiB event":
        return [("message", BIG), ("message", "z")]
    return [(name, data) for name, data in vector["events"]]


def decode(chunks: list[bytes]) -> list[tuple[str, str]]:
    decoder = Decoder()
    return [(event.name, event.text) for chunk in chunks for event in decoder.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1400, 2**30])
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_every_vector_holds_in_pieces_of_any_size(vector: dict, size: int) -> None:
    data = wire(vector)
    step = max(size, 1000) if len(data) > 10**6 else size

    assert decode([data[i : i + step] for i in range(0, len(data), step)]) == expected(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_every_vector_holds_in_random_pieces(vector: dict) -> None:
    data, dice = wire(vector), random.Random(7)

    for _ in range(30):
        places = [dice.randrange(len(data) + 1) for _ in range(dice.randrange(9))]
        assert decode(cut(data, places)) == expected(vector)


PIECES = st.sampled_from(
    [b"data: ", b"data:", b"data", b"event: x", b"id: 1", b"retry: 5", b": c", b"{}", b"a b", b"\n",
     b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\n\ndata: ", b"\xef\xbb\xbf", b"\xe4\xb8\xad", b"\xff"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map(b"".join), st.lists(st.integers(0, 10**6), max_size=12))
def test_any_cut_of_any_bytes_gives_the_events_of_the_whole(data: bytes, places: list[int]) -> None:
    assert decode(cut(data, places)) == decode([data])


@given(st.lists(PIECES, max_size=40).map(b"".join))
def test_the_fast_paths_agree_with_the_algorithm_of_the_specification(data: bytes) -> None:
    assert decode([data]) == by_the_book(data)


def by_the_book(data: bytes) -> list[tuple[str, str]]:
    """The specification's algorithm, a line at a time and with no thought for speed."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    *lines, _ = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events, buffer, name = [], "", ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if buffer:
                events.append((name or "message", buffer[:-1]))
            buffer, name = "", ""
        elif field == "data":
            buffer += value + "\n"
        elif field == "event":
            name = value
    return events


def test_a_lone_cr_dispatches_before_the_next_byte_is_there() -> None:
    decoder = Decoder()

    assert decoder.feed(b"data: a\r\r") == [Event(b"a")]
    assert decoder.feed(b"\ndata: b\r\n\r") == [Event(b"b")]


def test_a_comment_inside_a_block_neither_splits_nor_resets_it() -> None:
    decoder = Decoder()

    assert decoder.feed(b": cost=1\nevent: x\n: hb\ndata: [DONE]\n\n") == [Event(b"[DONE]", "x")]
    assert decoder.comments == 2


def test_the_last_id_and_the_retry_time_are_surfaced_and_never_dispatch() -> None:
    decoder = Decoder()

    assert decoder.feed(b"id: 7\n\nretry: 3000\n\n: ping\n\n") == []
    assert (decoder.last_id, decoder.retry_ms) == ("7", 3000)
    decoder.feed(b"id: a\0b\nretry: 12x\n\n")
    assert (decoder.last_id, decoder.retry_ms) == ("7", 3000)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"])
def test_an_unterminated_tail_is_surfaced_and_not_dispatched(ending: bytes) -> None:
    decoder = Decoder()

    assert decoder.feed(b"data: a\n\nevent: e\ndata: b" + ending) == [Event(b"a")]
    assert decoder.tail() == Event(b"b", "e")
    assert decoder.tail() is None


def test_a_tail_without_data_is_nothing() -> None:
    decoder = Decoder()
    decoder.feed(b"data: a\n\nid: 3\n: bye")

    assert decoder.tail() is None


def feed_again(decoder: Decoder, chunk: bytes) -> None:
    for _ in range(20):
        decoder.feed(chunk)


@pytest.mark.parametrize("prefix", [b"data: ", b": ", b"unknown"])
def test_a_line_that_never_ends_is_refused_at_the_limit(prefix: bytes) -> None:
    decoder = Decoder(limit_bytes=10_000)
    decoder.feed(prefix)

    with pytest.raises(EventTooLarge, match="10000 bytes"):
        feed_again(decoder, b"x" * 1000)


def test_an_event_of_endless_small_lines_is_refused_at_the_limit() -> None:
    decoder = Decoder(limit_bytes=10_000)

    with pytest.raises(EventTooLarge):
        feed_again(decoder, b"data: x\n" * 1000)


def test_an_event_over_the_limit_in_one_chunk_is_refused_too() -> None:
    with pytest.raises(EventTooLarge):
        Decoder(limit_bytes=100).feed(b"data: " + b"x" * 101 + b"\n\n")


def test_comments_hold_no_memory() -> None:
    decoder = Decoder(limit_bytes=1000)
    for _ in range(1000):
        assert decoder.feed(b": keep-alive\n") == []

    assert decoder.comments == 1000


def test_a_big_event_in_small_pieces_takes_linear_time() -> None:
    def cost(megabytes: int) -> float:
        decoder, piece = Decoder(), b"x" * 64
        decoder.feed(b"data: ")
        begin = time.process_time()
        for _ in range(megabytes * 2**20 // 64):
            decoder.feed(piece)
        assert len(decoder.feed(b"\n\n")[0].data) == megabytes * 2**20
        return time.process_time() - begin

    small = min(cost(1) for _ in range(3))
    assert min(cost(8) for _ in range(2)) < 8 * small * 4
