"""What one stream says, and when: the model family's published pace, from a seed.

A run of visible deltas (38 ms median, 91 ms 95th percentile), then reasoning, and so on. Of six
bursts of reasoning five trickle, a token every 22 ms, and one is held back by a gateway and comes
as one clump of 70 KB after a silence. Every visible delta is the time at which it was sent, so
whoever finds it knows how old it is.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from enum import IntEnum

from tests.benchmarks.streaming.bursts import burst, realistic

#: Visible deltas between two bursts of reasoning: about nine seconds.
RUN = 200
TRICKLED = (40, 200)
#: Of how many bursts one is a clump.
CLUMPED = 6
SILENCE_S = (0.5, 12.0)

#: (median seconds, sigma of the logarithm), as published.
VISIBLE = (0.038, 0.531)
THINKING = (0.022, 0.35)

#: Characters of a visible delta: the microseconds of the monotonic clock, which all processes of a
#: host share, and a blank.
STAMP_CHARS = 14


class Kind(IntEnum):
    TEXT = 0
    THINK = 1
    CLUMP = 2


def pace(seed: int) -> Iterator[tuple[float, Kind]]:
    """Pauses, and what comes behind each. It begins somewhere, as streams of a fleet would."""
    dice = random.Random(seed)
    left = dice.randrange(1, RUN)
    while True:
        for _ in range(left):
            yield _drawn(dice, VISIBLE), Kind.TEXT
        left = RUN
        if dice.randrange(CLUMPED) == 0:
            yield dice.uniform(*SILENCE_S), Kind.CLUMP
        else:
            for _ in range(dice.randint(*TRICKLED)):
                yield _drawn(dice, THINKING), Kind.THINK


def _drawn(dice: random.Random, of: tuple[float, float]) -> float:
    return of[0] * math.exp(dice.gauss(0.0, of[1]))


def stamp() -> bytes:
    return b"%013d " % (time.monotonic_ns() // 1000)


def chunk(data: bytes) -> bytes:
    """One HTTP chunk: what a server such as uvicorn makes of one event."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_MARK = "0" * (STAMP_CHARS - 1) + " "
_before, _, _after = chunk(realistic({"content": _MARK})).partition(_MARK.encode())
_THOUGHT = chunk(realistic({"reasoning_content": " it"}))
_CLUMP = chunk(burst("terse", " ")[0].rpartition(b"data: ")[0])
#: The end of a body, behind so many visible deltas.
_END = chunk(realistic({}, "stop"))
_USAGE = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[],"usage":'
    b'{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":9}}\n\n'
)


def said(kind: Kind) -> bytes:
    """The bytes of one step, sent now."""
    if kind is Kind.TEXT:
        return b"%b%b%b" % (_before, stamp(), _after)
    return _THOUGHT if kind is Kind.THINK else _CLUMP


def ending(visible: int) -> bytes:
    """The end of an answer; its usage tells how many visible deltas it had."""
    return _END + chunk(_USAGE % visible) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
