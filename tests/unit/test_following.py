"""However chunks are spread over reads, and wherever the listener wants a pause, every happening is
taken once and in order."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given, settings, strategies as st

from settings.model import Clocks
from tests.harness.wire import END, chunk, delta
from worker.upstream.chat import Chat
from worker.upstream.clocks import Watch
from worker.upstream.exchange import Exchange, Head
from worker.upstream.following import follow
from worker.upstream.happenings import Finished, Happening, Text, Thinking
from worker.upstream.link import Link

HEAD = Head(200, {"content-type": "text/event-stream"})
LAST = chunk(delta("stop") + b"data: [DONE]\n\n") + END
#: One chunk each: what is usual, in text and reasoning, and what is not.
KINDS = st.sampled_from(["text", "thought", "comment", "two", "split", "null"])


class Deaf:
    """A transport of which only the reading matters."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_extra_info(self, _: str) -> None: ...


def said(kind: str, number: int) -> bytes:
    word = f"{number} "
    match kind:
        case "text":
            return chunk(delta(content=word))
        case "thought":
            return chunk(delta(reasoning_content=word))
        case "comment":
            return chunk(b": ping\n\n")
        case "two":
            return chunk(delta(content=word) + delta(content=word))
        case "split":
            event = delta(content=word)
            return chunk(event[:9]) + chunk(event[9:])
    return chunk(delta(content=word, tool_calls=None, refusal=None))


async def followed(reads: list[bytes], pauses: set[int]) -> list[Happening]:
    """What a listener takes of these reads that wants a pause behind some happenings."""
    taken: list[Happening] = []
    link, exchange = Link(set()), Exchange()
    transport: Any = Deaf()
    link.connection_made(transport)

    async def moved() -> None:
        exchange.through(link)
        try:
            await link.pour(exchange, 1)
        finally:
            exchange.end(None)

    exchange.owned_by(moving := asyncio.create_task(moved()))

    def one(happening: Happening) -> Any:
        taken.append(happening)
        return asyncio.sleep(0) if len(taken) in pauses else None

    def take(batch: list[Happening]) -> Any:
        waits = [wait for happening in batch if (wait := one(happening)) is not None]
        return asyncio.gather(*waits) if waits else None

    async def bring() -> None:
        for read in reads:
            await asyncio.sleep(0)
            link.data_received(read)

    bringing = asyncio.create_task(bring())
    await follow(exchange, HEAD, Chat(usage_expected=False), Watch(Clocks()), "k", take, one)
    await bringing
    await moving
    return taken


@settings(max_examples=60)
@given(
    kinds=st.lists(KINDS, max_size=12),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.sampled_from([0, 0, 0, 5, 40])), max_size=6),
    pauses=st.sets(st.integers(1, 14)),
)
def test_chunks_spread_over_reads_in_any_way_are_the_same_answer(
    kinds: list[str], cuts: list[tuple[int, int]], pauses: set[int]
) -> None:
    pieces = [*(said(kind, number) for number, kind in enumerate(kinds)), LAST]
    data = b"".join(pieces)
    # Mostly between two chunks: usual is only what begins there.
    places = {len(b"".join(pieces[:number])) + beyond for number, beyond in cuts}
    edges = sorted({0, len(data), *(place for place in places if place < len(data))})
    reads = [data[begin:end] for begin, end in pairwise(edges)]

    taken = asyncio.run(followed(reads, pauses))

    words = [(kind, f"{number} ") for number, kind in enumerate(kinds) if kind != "comment"]
    text = [word * (1 + (kind == "two")) for kind, word in words if kind != "thought"]
    thoughts = [word for kind, word in words if kind == "thought"]
    assert "".join(each.text for each in taken if isinstance(each, Text)) == "".join(text)
    assert "".join(each.text for each in taken if isinstance(each, Thinking)) == "".join(thoughts)
    assert isinstance(taken[-1], Finished)
