"""The faults every client meets first: errors before, in and instead of a stream."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tasks.local.simulator import failures, framing
from tasks.local.simulator.answer import Answer, family, plain
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.prose import tokens
from tasks.local.simulator.scenarios.moves import first_half, nothing
from tasks.local.simulator.scenarios.scenario import Answering, Scenario, wired
from tasks.local.simulator.seeded import Chance
from tasks.local.simulator.steps import Ending, Script

#: The share of prompts that fail at first.
FLAKY_SHARE = 0.1


def reset(_ask: Ask, events: Iterable[Event]) -> Script:
    yield framing.SSE
    yield from first_half(events)
    yield Ending.RESET


def eof(_ask: Ask, events: Iterable[Event]) -> Script:
    yield framing.SSE
    yield from first_half(events)


def stall(_ask: Ask, events: Iterable[Event]) -> Script:
    yield framing.SSE
    yield from first_half(events)
    yield Ending.HANG


def too_many(ask: Ask, events: Iterable[Event]) -> Script:
    if ask.nth > 1:
        return wired(ask, events)
    return failures.failure(
        429,
        "Rate limit reached for requests. Please try again in 1s.",
        kind="requests",
        code="rate_limit_exceeded",
        headers=(("retry-after", "1"), ("x-ratelimit-remaining-requests", "0")),
    )


def flaky(ask: Ask, events: Iterable[Event]) -> Script:
    """Some prompts fail at first, and never twice."""
    chance = Chance(ask.seed, "fault")
    if ask.nth > 1 or not chance.happens(FLAKY_SHARE):
        return wired(ask, events)
    return chance.pick((too_many, server_error, reset, eof))(ask, events)


def server_error(_ask: Ask, _events: Iterable[Event]) -> Script:
    return failures.failure(
        500, "The server had an error while processing your request.", kind="server_error"
    )


def half_with(finish: str) -> Answering:
    """The first half of the family's answer, ended by `finish`."""

    def answer(ask: Ask) -> Answer:
        whole = family(ask)
        middle = len(whole.tokens) // 2
        kept = tuple(burst for burst in whole.bursts if burst.at <= middle)
        return Answer(whole.tokens[:middle], kept, finish)

    return answer


def refuse(_ask: Ask) -> Answer:
    return Answer(tokens("Simulated refusal: I'm sorry, I can't help with that."), refusal=True)


def bad_json(_ask: Ask, events: Iterable[Event]) -> Script:
    """What follows the broken document is no true continuation, so it does not count as text."""
    every = list(events)
    middle = _middle(every)
    rest = [msgspec.structs.replace(event, text="", text_tokens=0) for event in every[middle:]]
    half = _halves(rest[0])[0]
    rest[0] = msgspec.structs.replace(rest[0], data=half)
    return framing.stream([*every[:middle], *rest])


def cut_json(_ask: Ask, events: Iterable[Event]) -> Script:
    every = list(events)
    middle = _middle(every)
    head, tail = _halves(every[middle])
    first = msgspec.structs.replace(every[middle], data=head, text="", text_tokens=0)
    second = msgspec.structs.replace(every[middle], data=tail, pause_s=0.0)
    return framing.stream([*every[:middle], first, second, *every[middle + 1 :]])


def glued_json(_ask: Ask, events: Iterable[Event]) -> Script:
    every = list(events)
    middle = _middle(every[:-8])
    one, two = every[middle : middle + 2]
    both = msgspec.structs.replace(
        one,
        data=(one.data or b"") + (two.data or b""),
        text=one.text + two.text,
        text_tokens=one.text_tokens + two.text_tokens,
    )
    return framing.stream([*every[:middle], both, *every[middle + 2 :]])


def _middle(every: list[Event]) -> int:
    """Where the event in the middle of the text is."""
    texts = [index for index, event in enumerate(every) if event.text]
    return texts[len(texts) // 2]


def _halves(event: Event) -> tuple[bytes, bytes]:
    data = event.data or b""
    middle = len(data) // 2
    return data[:middle], data[middle:]


SCENARIOS = (
    Scenario(
        name="sim:flaky",
        does="The first request of one prompt in ten fails: 429, 500, RST or a clean end half-way.",
        wire=flaky,
    ),
    Scenario(name="sim:reset", does="RST after half of the text.", wire=reset),
    Scenario(name="sim:eof", does="A clean end of the body after half of the text.", wire=eof),
    Scenario(name="sim:stall", does="Silence, and no end, after half of the text.", wire=stall),
    Scenario(
        name="sim:429",
        does="429 with `Retry-After: 1` for the first request of a prompt, then the family.",
        wire=too_many,
    ),
    Scenario(name="sim:500", does="500, always.", answer=nothing, wire=server_error),
    Scenario(name="sim:length", does="Stops at a length limit.", answer=half_with("length")),
    Scenario(
        name="sim:filter",
        does="A content filter stops the answer half-way.",
        answer=half_with("content_filter"),
    ),
    Scenario(name="sim:refuse", does="Declines, in the refusal channel.", answer=refuse),
    Scenario(
        name="sim:badjson",
        does="A document cut in half in the middle of the text; the stream goes on.",
        answer=plain,
        wire=bad_json,
    ),
    Scenario(
        name="sim:cutjson",
        does="A document cut in half, its halves sent as two events.",
        answer=plain,
        wire=cut_json,
    ),
    Scenario(
        name="sim:gluedjson",
        does="Two documents in one `data:` line, nothing between them.",
        answer=plain,
        wire=glued_json,
    ),
)
