"""Behaviours without a fault: the model family, and texts of known sizes."""

from __future__ import annotations

from tasks.local.simulator import answer as answers
from tasks.local.simulator.answer import GAP_S, Answer, Burst, capped, limited, visible
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.scenarios.scenario import Scenario
from tasks.local.simulator.seeded import Chance

SLOW_TOKENS = 2_000
LONG_TOKENS = 20_000
#: Four bursts, held back or trickled as the seed decides.
THINK_BURSTS = (1_800, 1_000, 800, 400)


def slow(ask: Ask) -> Answer:
    return limited(ask, Answer(visible(ask, SLOW_TOKENS)))


def long(ask: Ask) -> Answer:
    return limited(ask, Answer(visible(ask, LONG_TOKENS)))


def think(ask: Ask) -> Answer:
    """The effort does not act here: the size of the reasoning is what the name promises."""
    chance = Chance(ask.seed, "think")
    text = visible(ask)
    places = [0, *sorted(chance.below(len(text)) for _ in THINK_BURSTS[1:])]
    planned = [
        Burst(at, size, chance.log_uniform(*GAP_S), chance.happens(0.5))
        for at, size in zip(places, THINK_BURSTS, strict=True)
    ]
    return limited(ask, Answer(text, capped(ask, planned)))


_FAMILY = "The model family: bursts of reasoning between visible tokens, silences before them."
_PLAIN = "Text at an even pace, no reasoning."

SCENARIOS = (
    Scenario(name="gpt-5.5-codex", does=_FAMILY),
    Scenario(name="deepseek-v3.2", does=_FAMILY),
    Scenario(name="claude-sonnet-4.5", does=_PLAIN, answer=answers.plain),
    Scenario(name="gpt-4.1", does=_PLAIN, answer=answers.plain),
    Scenario(name="gemini-2.5-flash", does=_PLAIN, answer=answers.plain),
    Scenario(name="sim:plain", does=_PLAIN, answer=answers.plain),
    Scenario(name="sim:slow", does="About 2,000 visible tokens, no reasoning.", answer=slow),
    Scenario(name="sim:long", does="About 20,000 visible tokens, no reasoning.", answer=long),
    Scenario(name="sim:think", does="4,000 reasoning tokens in four bursts.", answer=think),
)
