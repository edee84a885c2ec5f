"""Q52, Q53 and more of the Responses API: event names, snapshots, and coming back to a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import msgspec

from tasks.local.simulator import failures, responses
from tasks.local.simulator.answer import Answer, family
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.background import Stored, attached
from tasks.local.simulator.events import Event, Shaping, reshaped
from tasks.local.simulator.scenarios.faults import reset
from tasks.local.simulator.scenarios.moves import rewritten, silent
from tasks.local.simulator.scenarios.scenario import Quirk, Scenario
from tasks.local.simulator.steps import Ending, Script, Send

#: What `sim:snapshot-suffix` keeps back.
SUFFIX_TOKENS = 6
#: What one connection of `sim:resume-reset` brings before its RST.
RESUMED_TOKENS = 20


def named(name: str) -> Shaping:
    """Every event under the same name, whatever its type."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        for event in responses.events(ask, answer):
            yield msgspec.structs.replace(event, name=name)

    return shape


def unnamed(data: bytes) -> bytes:
    return re.sub(rb"^event: .*$", b"event:", data, flags=re.MULTILINE)


def empty_output(ask: Ask, answer: Answer) -> Iterator[Event]:
    def change(payload: dict[str, Any], _event: Event) -> None:
        if payload["type"] == "response.completed":
            payload["response"]["output"] = []

    return reshaped(responses.events(ask, answer), change)


def late(kept_back: int | None) -> Shaping:
    """The last deltas of the text are not sent; its snapshots have it whole."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        every = list(responses.events(ask, answer))
        texts = [event for event in every if event.text]
        gone = texts if kept_back is None else texts[-kept_back:]
        return renumbered(_moved(every, gone))

    return shape


def renumbered(events: Iterable[Event]) -> Iterator[Event]:
    """Sequence numbers without a hole."""
    numbers = count()

    def change(payload: dict[str, Any], _event: Event) -> None:
        payload["sequence_number"] = next(numbers)

    return reshaped(events, change)


def _moved(every: list[Event], gone: list[Event]) -> Iterator[Event]:
    missing = {id(event) for event in gone}
    for event in every:
        if id(event) in missing:
            continue
        if event.name == "response.output_text.done":
            text = "".join(one.text for one in gone)
            yield msgspec.structs.replace(event, text=text, text_tokens=len(gone))
        else:
            yield event


def unnumbered(ask: Ask, answer: Answer) -> Iterator[Event]:
    def change(payload: dict[str, Any], _event: Event) -> None:
        del payload["sequence_number"]

    return reshaped(responses.events(ask, answer), change)


def repeated(ask: Ask, answer: Answer) -> Iterator[Event]:
    """Every delta of the text a second time, with the same number."""
    for event in responses.events(ask, answer):
        yield event
        if event.text:
            yield silent(event)


def refused_as_old(_stored: Stored, _after: int, _elapsed_s: float) -> Script:
    return failures.too_old()


def gone(stored: Stored, _after: int, _elapsed_s: float) -> Script:
    return failures.no_response(responses.response_id(stored.ask))


def reset_again(stored: Stored, after: int, elapsed_s: float) -> Script:
    left = RESUMED_TOKENS
    for step in attached(stored, after, elapsed_s):
        yield step
        left -= step.text_tokens if isinstance(step, Send) else 0
        if left <= 0:
            yield Ending.RESET
            return


def replayed(stored: Stored, _after: int, elapsed_s: float) -> Script:
    """From the start, whatever was asked for."""
    return attached(stored, -1, elapsed_s)


SCENARIOS = (
    Quirk(
        name="sim:q52-no-event-name",
        does="No `event:` line.",
        dialect="responses",
        shape=named(""),
    ),
    Quirk(
        name="sim:q52-empty-event-name",
        does="An empty `event:` line on every event.",
        dialect="responses",
        wire=rewritten(unnamed),
    ),
    Quirk(
        name="sim:q52-wrong-event-name",
        does="`event: response.created` on every event.",
        dialect="responses",
        shape=named("response.created"),
    ),
    Quirk(
        name="sim:q53-empty-output",
        does="`response.completed` with `output: []`.",
        dialect="responses",
        shape=empty_output,
    ),
    Quirk(
        name="sim:snapshot-suffix",
        does="The last deltas are missing; `response.output_text.done` has the whole text.",
        dialect="responses",
        shape=late(SUFFIX_TOKENS),
    ),
    Quirk(
        name="sim:snapshot-only",
        does="No delta of the text at all, only its snapshots.",
        dialect="responses",
        shape=late(None),
    ),
    Quirk(
        name="sim:no-sequence",
        does="No `sequence_number` on any event.",
        dialect="responses",
        shape=unnumbered,
    ),
    Quirk(
        name="sim:repeated-events",
        does="Every delta of the text twice, with the same `sequence_number`.",
        dialect="responses",
        shape=repeated,
    ),
    Scenario(
        name="sim:resume-old",
        does="RST half-way; coming back is refused as too late, polling works.",
        dialect="responses",
        answer=family,
        wire=reset,
        resume=refused_as_old,
    ),
    Scenario(
        name="sim:resume-gone",
        does="RST half-way; coming back to the stream gets 404.",
        dialect="responses",
        wire=reset,
        resume=gone,
    ),
    Scenario(
        name="sim:resume-reset",
        does="RST half-way, and again after every 20 tokens.",
        dialect="responses",
        wire=reset,
        resume=reset_again,
    ),
    Scenario(
        name="sim:resume-replay",
        does="RST half-way; coming back replays from the start, whatever the cursor.",
        dialect="responses",
        wire=reset,
        resume=replayed,
    ),
)
