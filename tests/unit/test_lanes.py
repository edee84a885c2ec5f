"""However the store's replies are cut, a lane gives each batch its replies, once and in order."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given, strategies as st
from redis.exceptions import ResponseError

from worker.log.lanes import SocketLane

#: As a server sends them, and as they are given. The error ends like a whole reply.
REPLIES: dict[bytes, Any] = {
    b":1\r\n": 1,
    b":12\r\n": 12,
    b"$2\r\nab\r\n": b"ab",
    b"-ERR :1\r\n": "ERR :1",
    b"*2\r\n:1\r\n:1\r\n": [1, 1],
}


class Deaf:
    def set_protocol(self, _: object) -> None: ...
    def write(self, _: bytes) -> None: ...
    def get_extra_info(self, _: str) -> None: ...


def given_for(batches: list[list[bytes]], cuts: set[int]) -> list[Any]:
    """What a lane gives for the replies of these batches, each cut at these places."""
    told: list[Any] = []

    async def main() -> None:
        writer = SimpleNamespace(transport=Deaf())
        lane = SocketLane(SimpleNamespace(_writer=writer, _reader=None), told.append, told.append)
        for batch in batches:
            data = b"".join(batch)
            lane.send([b""] * len(batch))
            edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
            for begin, end in pairwise(edges):
                lane._received(data[begin:end])

    asyncio.run(main())
    return told


@given(
    batches=st.lists(
        st.lists(st.sampled_from([b":1\r\n", *REPLIES]), min_size=1, max_size=4), max_size=4
    ),
    cuts=st.sets(st.integers(0, 30), max_size=3),
)
def test_replies_cut_anywhere_are_the_same_replies(
    batches: list[list[bytes]], cuts: set[int]
) -> None:
    told = given_for(batches, cuts)

    assert len(told) == len(batches)
    for replies, batch in zip(told, batches, strict=True):
        shown = [str(each) if isinstance(each, ResponseError) else each for each in replies or []]
        assert (shown or [1] * len(batch)) == [REPLIES[reply] for reply in batch]


def test_the_end_of_an_error_is_no_reply() -> None:
    ((error,),) = given_for([[b"-ERR :1\r\n"]], {5})

    assert isinstance(error, ResponseError)
