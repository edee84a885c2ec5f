"""The pace of an answer: what comes next, and after how long a silence, before any dialect.

Reasoning arrives in two ways. A trickled burst comes token by token. A clumped one was held
back by a gateway and is released in one write, several tokens to an event;
`reasoning_chunk_buffer` makes the gateway release it about every so many tokens instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import IntEnum

import msgspec

from tasks.local.simulator.answer import Answer, Burst
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.prose import THOUGHTS
from tasks.local.simulator.seeded import Chance

#: (median seconds, sigma of the logarithm); sigma from the published 95th percentiles:
#: first token 47 and 138 ms, visible tokens 38 and 91 ms.
FIRST = (0.047, 0.655)
VISIBLE = (0.038, 0.531)
THINKING = (0.022, 0.35)
#: Between two keep-alives of a silence.
KEEPALIVE_S = 2.5
#: Reasoning tokens in one event of a clump: 1,800 of them then fill about 70 KB.
CLUMP_EVENT_TOKENS = 9


class Kind(IntEnum):
    """What a beat brings."""

    OPEN = 0
    KEEPALIVE = 1
    THINK = 2
    TEXT = 3
    FINISH = 4


class Beat(msgspec.Struct, frozen=True):
    """One step of an answer. `joined`: it shares a write with the beat before."""

    kind: Kind
    text: str = ""
    tokens: int = 0
    pause_s: float = 0.0
    joined: bool = False


def beats(ask: Ask, answer: Answer) -> Iterator[Beat]:
    """The whole answer, paced."""
    chance = Chance(ask.seed, "pace")
    yield Beat(Kind.OPEN, pause_s=chance.log_normal(*FIRST))
    waiting = list(answer.bursts)
    for index, text in enumerate(answer.tokens):
        while waiting and waiting[0].at <= index:
            yield from _burst(ask, waiting.pop(0), chance)
        yield Beat(Kind.TEXT, text, 1, chance.log_normal(*VISIBLE))
    for burst in waiting:
        yield from _burst(ask, burst, chance)
    yield Beat(Kind.FINISH)


def _burst(ask: Ask, burst: Burst, chance: Chance) -> Iterator[Beat]:
    start = chance.below(len(THOUGHTS))
    if not burst.clumped:
        yield from _trickle(burst, start, chance)
        return
    step = max(1, ask.flush_every or burst.tokens)
    pieces = range(0, burst.tokens, step)
    for at in pieces:
        left_s = yield from _silence(burst.gap_s / len(pieces))
        yield from _clump(start + at, min(step, burst.tokens - at), left_s)


def _trickle(burst: Burst, start: int, chance: Chance) -> Iterator[Beat]:
    pause_s = yield from _silence(burst.gap_s)
    for index in range(start, start + burst.tokens):
        yield Beat(Kind.THINK, _thought(index, 1), 1, pause_s)
        pause_s = chance.log_normal(*THINKING)


def _clump(start: int, size: int, pause_s: float) -> Iterator[Beat]:
    for at in range(0, size, CLUMP_EVENT_TOKENS):
        count = min(CLUMP_EVENT_TOKENS, size - at)
        text = _thought(start + at, count)
        yield Beat(Kind.THINK, text, count, 0.0 if at else pause_s, joined=at > 0)


def _silence(seconds: float) -> Generator[Beat, None, float]:
    """Keep-alives while `seconds` pass; returns what is left of them after the last."""
    count = int(seconds // KEEPALIVE_S)
    for _ in range(count):
        yield Beat(Kind.KEEPALIVE, pause_s=KEEPALIVE_S)
    return seconds - count * KEEPALIVE_S


def _thought(start: int, count: int) -> str:
    size = len(THOUGHTS)
    return "".join(THOUGHTS[index % size] for index in range(start, start + count))
