"""The answer a request is meant to get: visible tokens, and bursts of reasoning between them.

Pure, and the same for the same request. The parameters act on it as a provider's would:
`reasoning_effort` removes and shrinks bursts, `max_reasoning_tokens` caps their sum, the output
limit cuts the text. The draws behind it do not depend on the parameters, so what remains at a
lower effort is a subset of what a higher one had.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tasks.local.simulator.ask import Ask
from tasks.local.simulator.prose import essay, tokens
from tasks.local.simulator.refactor import refactored
from tasks.local.simulator.seeded import Chance

#: Published bounds of one burst, in reasoning tokens, and of the silence before it.
BURST_TOKENS = (40, 2_400)
GAP_S = (0.5, 12.0)
#: The visible length of a plain answer, in tokens.
PLAIN_TOKENS = (60, 380)
#: A long answer thinks more often, but not without end.
MAX_BURSTS = 12
#: The share of bursts that the gateway holds back and releases in one write.
CLUMPED_SHARE = 0.5
#: What each effort leaves of the bursts, and of their size. "low" removes about 78 %.
_EFFORT = {
    "none": (0.0, 0.0),
    "minimal": (0.05, 0.2),
    "low": (0.22, 0.4),
    "medium": (1.0, 1.0),
    "high": (1.0, 1.5),
    "xhigh": (1.0, 2.0),
    "max": (1.0, 2.5),
}


class Burst(msgspec.Struct, frozen=True):
    """Reasoning before the visible token number `at`, after a silence of `gap_s`."""

    at: int
    tokens: int
    gap_s: float
    clumped: bool


#: A short answer, and its one short thought.
BRIEF_TOKENS = 40
BRIEF_BURST = (Burst(0, 12, 0.5, False),)


class Answer(msgspec.Struct, frozen=True):
    """What a request is meant to get. `refusal` says that the text declines to answer."""

    tokens: tuple[str, ...]
    bursts: tuple[Burst, ...] = ()
    finish: str = "stop"
    refusal: bool = False

    @property
    def text(self) -> str:
        return "".join(self.tokens)


def family(ask: Ask) -> Answer:
    """The model family's answer: text with bursts of reasoning in it."""
    text = visible(ask)
    return limited(ask, Answer(text, capped(ask, bursts(ask, len(text)))))


def plain(ask: Ask) -> Answer:
    """The same text without any reasoning."""
    return limited(ask, Answer(visible(ask)))


def brief(ask: Ask) -> Answer:
    """A short text after a short thought: enough for a quirk to show."""
    return limited(ask, Answer(visible(ask, BRIEF_TOKENS), capped(ask, BRIEF_BURST)))


def visible(ask: Ask, size: int | None = None) -> tuple[str, ...]:
    """The text for a request: a refactored file if it sent one, else prose."""
    changed = refactored(ask.prompt)
    if changed is not None:
        return tokens(changed)
    chance = Chance(ask.seed, "text")
    drawn = chance.between(*PLAIN_TOKENS)
    return essay(chance, drawn if size is None else size)


def limited(ask: Ask, answer: Answer) -> Answer:
    """`answer` cut to the request's output limit, which counts visible tokens."""
    limit = ask.max_output
    if limit is None or len(answer.tokens) <= limit:
        return answer
    kept = tuple(burst for burst in answer.bursts if burst.at <= limit)
    return Answer(answer.tokens[: max(0, limit)], kept, "length", answer.refusal)


def bursts(ask: Ask, length: int) -> tuple[Burst, ...]:
    """The bursts that the effort leaves, in order."""
    chance = Chance(ask.seed, "bursts")
    share, scale = _EFFORT[ask.effort]
    low, high = BURST_TOKENS
    found = []
    for slot in range(min(MAX_BURSTS, 2 + length // 50)):
        at = 0 if slot == 0 else chance.below(length + 1)
        size = min(high, max(low, int(scale * chance.log_uniform(low, high))))
        gap_s = chance.log_uniform(*GAP_S)
        clumped = chance.happens(CLUMPED_SHARE)
        if chance.happens(share):
            found.append(Burst(at, size, gap_s, clumped))
    return tuple(sorted(found, key=lambda burst: burst.at))


def thinned(ask: Ask, chance: Chance, planned: Iterable[Burst]) -> list[Burst]:
    """What the effort leaves of `planned`. What a lower one leaves, a higher one leaves too."""
    share, scale = _EFFORT[ask.effort]
    low, high = BURST_TOKENS
    drawn = [(burst, chance.fraction() < share) for burst in planned]
    return [
        msgspec.structs.replace(burst, tokens=min(high, max(low, int(scale * burst.tokens))))
        for burst, stays in drawn
        if stays
    ]


def capped(ask: Ask, planned: Iterable[Burst]) -> tuple[Burst, ...]:
    """`planned` up to `max_reasoning_tokens`."""
    if ask.max_reasoning is None:
        return tuple(planned)
    left = ask.max_reasoning
    kept = []
    for burst in planned:
        size = min(burst.tokens, left)
        if size > 0:
            kept.append(msgspec.structs.replace(burst, tokens=size))
            left -= size
    return tuple(kept)
