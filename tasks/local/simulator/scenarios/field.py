"""The load that `longstream bench` sends, with the faults a team in production has met.

An answer opens with a little reasoning at once, as theirs did. A prompt that calls itself
"reasoning-heavy" then gets 4,000 reasoning tokens in bursts between few visible ones; any other
gets a long text and few bursts. Effort acts on the bursts as it does everywhere.

One stream in sixty is hit, whatever happened to the requests before it: it goes silent for good,
or a proxy with an idle timer ends it in a pause, by RST or with a clean end of the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tasks.local.simulator import framing
from tasks.local.simulator.answer import (
    BURST_TOKENS,
    CLUMPED_SHARE,
    GAP_S,
    Answer,
    Burst,
    capped,
    limited,
    thinned,
    visible,
)
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.moves import first_tokens
from tasks.local.simulator.scenarios.scenario import Scenario, wired
from tasks.local.simulator.seeded import Chance
from tasks.local.simulator.steps import Ending, Pause, Script, Step

#: The published rate of streams that timed out.
HIT_SHARE = 0.017
#: The pause in which a proxy's idle timer runs out.
IDLE_S = (8.0, 10.0)
#: What a proxy that ends the body cleanly takes with it, in visible tokens.
LOST_TOKENS = (60, 80)

Fault = Callable[[Chance, list[Event]], Script]

HEAVY = "reasoning-heavy"
#: What was healthy before a published stall: some 30 reasoning tokens.
_OPENING = Burst(0, 30, 0.0, clumped=False)
_HEAVY_THINKING, _HEAVY_VISIBLE = 4_000, (80, 120)
_LIGHT_BURSTS, _LIGHT_VISIBLE = 3, (200, 380)


def answer(ask: Ask) -> Answer:
    chance = Chance(ask.seed, "field")
    heavy = HEAVY in ask.prompt
    text = visible(ask, chance.between(*(_HEAVY_VISIBLE if heavy else _LIGHT_VISIBLE)))
    sizes = _heavy_sizes(chance) if heavy else _sizes(chance, _LIGHT_BURSTS)
    places = _places(chance, len(text), len(sizes))
    drawn = [_burst(chance, at, size) for at, size in zip(places, sizes, strict=True)]
    kept = thinned(ask, chance, drawn)
    planned = sorted([_OPENING, *kept], key=lambda burst: burst.at)
    return limited(ask, Answer(text, capped(ask, planned)))


def _sizes(chance: Chance, count: int) -> list[int]:
    return [int(chance.log_uniform(*BURST_TOKENS)) for _ in range(count)]


def _heavy_sizes(chance: Chance) -> list[int]:
    """Bursts that are 4,000 tokens together; a last one too small to count joins the others."""
    left, found = _HEAVY_THINKING, []
    while left:
        size = min(left, int(chance.log_uniform(*BURST_TOKENS)))
        if left - size < BURST_TOKENS[0]:
            size = left
        found.append(size)
        left -= size
    return found


def _places(chance: Chance, length: int, count: int) -> list[int]:
    """Behind the first visible token and before the last; each at a place of its own."""
    found: set[int] = set()
    while len(found) < count:
        found.add(chance.between(1, length - 1))
    return sorted(found)


def _burst(chance: Chance, at: int, size: int) -> Burst:
    return Burst(at, size, chance.log_uniform(*GAP_S), chance.happens(CLUMPED_SHARE))


def hit(ask: Ask, events: Iterable[Event]) -> Script:
    chance = Chance(ask.seed, f"hit {ask.nth}")
    if not chance.happens(HIT_SHARE):
        return wired(ask, events)
    return chance.pick((stalled, reset, closed))(chance, list(events))


def stalled(chance: Chance, events: list[Event]) -> Script:
    yield from _until(events, chance.below(_length(events)))
    yield Ending.HANG


def reset(chance: Chance, events: list[Event]) -> Script:
    yield from _until(events, chance.below(_length(events)))
    yield Pause(_idle(chance))
    yield Ending.RESET


def closed(chance: Chance, events: list[Event]) -> Script:
    """Nothing of HTTP tells this end from a good one."""
    yield from _until(events, max(1, _length(events) - chance.between(*LOST_TOKENS)))
    yield Pause(_idle(chance))


def _until(events: list[Event], count: int) -> Iterator[Step]:
    yield framing.SSE
    yield from first_tokens(events, count)


def _length(events: list[Event]) -> int:
    return sum(event.text_tokens for event in events)


def _idle(chance: Chance) -> float:
    low, high = IDLE_S
    return low + (high - low) * chance.fraction()


SCENARIOS = (
    Scenario(
        name="sim:field",
        does="The load of `longstream bench`: 1.7 % of the streams fall silent for good, or are "
        "ended by a proxy in a pause, by RST or with a clean end.",
        answer=answer,
        wire=hit,
    ),
    Scenario(name="sim:field-calm", does="The same answers, and no stream is hit.", answer=answer),
)
