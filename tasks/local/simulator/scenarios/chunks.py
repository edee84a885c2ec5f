"""Q32-Q40: chat chunks with fields that are null, missing, repeated or elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tasks.local.simulator import chat, framing
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import DONE, Event, Shaping, reshaped
from tasks.local.simulator.scenarios.moves import without_done
from tasks.local.simulator.scenarios.scenario import Quirk
from tasks.local.simulator.steps import Script

Chunk = dict[str, Any]


def each(change: Callable[[Chunk, Event], object]) -> Shaping:
    """Every chunk of the ordinary stream changed."""
    return lambda ask, answer: reshaped(chat.events(ask, answer), change)


def choices(change: Callable[[Chunk, Event], object]) -> Shaping:
    """Every choice of the ordinary stream changed."""

    def apply(chunk: Chunk, event: Event) -> None:
        for choice in chunk["choices"]:
            change(choice, event)

    return each(apply)


def before(field: str) -> Shaping:
    """Azure's first chunk: what the filters said about the prompt, and no choice."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        results = [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False}}}]
        first = chat.envelope(ask) | {"id": "", "model": "", "choices": [], field: results}
        yield Event(data=msgspec.json.encode(first))
        yield from chat.events(ask, answer)

    return shape


def usage_at(place: Callable[[Chunk, Chunk, Event], None]) -> Shaping:
    """What was used so far, put by `place` where it pleases; never in a chunk of its own."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        visible = thinking = 0

        def put(chunk: Chunk, event: Event) -> None:
            nonlocal visible, thinking
            visible += event.text_tokens
            thinking += event.thinking_tokens
            place(chunk, chat.usage(ask, visible, thinking), event)

        without = msgspec.structs.replace(ask, include_usage=False)
        yield from reshaped(chat.events(without, answer), put)

    return shape


def usage_last(ask: Ask, answer: Answer) -> Iterator[Event]:
    """In a chunk of its own, asked for or not."""
    yield from chat.events(msgspec.structs.replace(ask, include_usage=True), answer)


def on_every(chunk: Chunk, used: Chunk, _event: Event) -> None:
    chunk["usage"] = used


def on_finish(chunk: Chunk, used: Chunk, event: Event) -> None:
    if event.finish:
        chunk["usage"] = used


def in_choice(chunk: Chunk, used: Chunk, event: Event) -> None:
    if event.finish:
        chunk["choices"][0]["usage"] = used


def then_null(_ask: Ask, events: Iterable[Event]) -> Script:
    """One chunk more, whose `usage` is null."""
    every = list(events)
    last = msgspec.json.decode(every[-2].data or b"{}") | {"choices": [], "usage": None}
    nothing = Event(data=msgspec.json.encode(last))
    return framing.stream([*every[:-1], nothing, every[-1]])


def no_delta(value: Chunk) -> Shaping:
    """After every chunk of text, one whose choice is `value`."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        extra = chat.envelope(ask) | {"choices": [{"index": 0, "finish_reason": None} | value]}
        for event in chat.events(ask, answer):
            yield event
            if event.text:
                yield Event(data=msgspec.json.encode(extra))

    return shape


def no_id(chunk: Chunk, _event: Event) -> None:
    chunk["id"] = ""


def null_fields(choice: Chunk, event: Event) -> None:
    nulls = {"role": "assistant", "tool_calls": None, "function_call": None, "refusal": None}
    if not event.text:
        nulls |= {"role": "", "content": None}
    choice["delta"] = nulls | choice["delta"]


def empty_finish(choice: Chunk, _event: Event) -> None:
    choice["finish_reason"] = choice["finish_reason"] or ""


def no_finish(choice: Chunk, _event: Event) -> None:
    choice["finish_reason"] = None


def text_on_finish(ask: Ask, answer: Answer) -> Iterator[Event]:
    """The last piece of text comes in the chunk that ends the answer."""
    held: Event | None = None
    for event in chat.events(ask, answer):
        if event.finish and held is not None:
            merged = chat.chunk(ask, {"content": held.text}, event.finish)
            yield msgspec.structs.replace(held, data=merged, finish=event.finish)
            held = None
            continue
        if held is not None:
            yield held
            held = None
        if event.text:
            held = event
        else:
            yield event


def finish_twice(ask: Ask, answer: Answer) -> Iterator[Event]:
    yield from without_done(text_on_finish(ask, answer))
    yield Event(data=chat.chunk(ask, {}, answer.finish))
    yield Event(data=DONE)


SCENARIOS = (
    Quirk(
        name="sim:q32-azure-first-chunk",
        does="A first chunk with `prompt_filter_results`, no choice and an empty id.",
        dialect="chat",
        shape=before("prompt_filter_results"),
    ),
    Quirk(
        name="sim:q32-prompt-annotations",
        does="A first chunk with `prompt_annotations`, no choice and an empty id.",
        dialect="chat",
        shape=before("prompt_annotations"),
    ),
    Quirk(
        name="sim:q33-usage-last",
        does="Usage in a chunk of its own after the finish, asked for or not.",
        dialect="chat",
        shape=usage_last,
    ),
    Quirk(
        name="sim:q33-usage-on-finish",
        does="Usage on the finish chunk.",
        dialect="chat",
        shape=usage_at(on_finish),
    ),
    Quirk(
        name="sim:q34-usage-everywhere",
        does="Cumulative usage on every chunk.",
        dialect="chat",
        shape=usage_at(on_every),
    ),
    Quirk(
        name="sim:q34-usage-then-null",
        does="Cumulative usage on every chunk, and null on the last.",
        dialect="chat",
        shape=usage_at(on_every),
        wire=then_null,
    ),
    Quirk(
        name="sim:q34-usage-in-choice",
        does="Usage inside the choice of the finish chunk.",
        dialect="chat",
        shape=usage_at(in_choice),
    ),
    Quirk(
        name="sim:q35-null-delta",
        does="Chunks with `delta: null` between the others.",
        dialect="chat",
        shape=no_delta({"delta": None}),
    ),
    Quirk(
        name="sim:q35-missing-delta",
        does="Chunks without a delta between the others, as Azure's filter sends them.",
        dialect="chat",
        shape=no_delta({"content_filter_offsets": {"check_offset": 0, "end_offset": 9}}),
    ),
    Quirk(
        name="sim:q35-empty-id",
        does="`id` empty on every chunk.",
        dialect="chat",
        shape=each(no_id),
    ),
    Quirk(
        name="sim:q36-null-fields",
        does="Null and empty fields, and the role again on every chunk.",
        dialect="chat",
        shape=choices(null_fields),
    ),
    Quirk(
        name="sim:q37-empty-finish",
        does='`finish_reason: ""` on every chunk but the last.',
        dialect="chat",
        shape=choices(empty_finish),
    ),
    Quirk(
        name="sim:q38-text-on-finish",
        does="The last piece of text on the finish chunk.",
        dialect="chat",
        shape=text_on_finish,
    ),
    Quirk(
        name="sim:q38-finish-twice",
        does="The last piece of text on the finish chunk, and a second finish chunk.",
        dialect="chat",
        shape=finish_twice,
    ),
    Quirk(
        name="sim:q39-no-finish",
        does="`[DONE]` without any `finish_reason`.",
        dialect="chat",
        shape=choices(no_finish),
    ),
)
