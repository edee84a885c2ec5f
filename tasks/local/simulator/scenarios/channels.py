"""Q40-Q45: reasoning, tool calls and refusals, by all the names they travel under."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tasks.local.simulator import chat
from tasks.local.simulator.answer import Answer, Burst, capped
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event, Shaping
from tasks.local.simulator.scenarios.chunks import choices
from tasks.local.simulator.scenarios.faults import half_with, refuse
from tasks.local.simulator.scenarios.scenario import Quirk

Chunk = dict[str, Any]

#: A budget that the reasoning uses up.
BUDGET_TOKENS = 600


def thinking_as(rename: Callable[[str], Chunk]) -> Shaping:
    """Reasoning in the fields that `rename` makes of it."""

    def change(choice: Chunk, event: Event) -> None:
        if event.thinking_tokens:
            choice["delta"] = rename(choice["delta"]["reasoning_content"])

    return choices(change)


def detailed(text: str) -> Chunk:
    """OpenRouter's two fields with one content: it counts once."""
    return {"reasoning": text, "reasoning_details": [{"type": "reasoning.text", "text": text}]}


def parts(choice: Chunk, event: Event) -> None:
    """Mistral's content: a list of parts, some of them thinking."""
    if event.thinking_tokens:
        thought = {"type": "text", "text": choice["delta"]["reasoning_content"]}
        choice["delta"] = {"content": [{"type": "thinking", "thinking": [thought]}]}
    elif event.text:
        choice["delta"] = {"content": [{"type": "text", "text": event.text}]}


def inline(*pieces: str) -> Shaping:
    """Reasoning inside the content, between tags that are cut over deltas."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        short = msgspec.structs.replace(answer, bursts=())
        every = list(chat.events(ask, short))
        start = next(index for index, event in enumerate(every) if event.text)
        yield from every[:start]
        for piece in pieces:
            yield Event(data=chat.chunk(ask, {"content": piece}), thinking_tokens=1)
        yield from every[start:]

    return shape


def called(*fragments: list[Chunk]) -> Shaping:
    """A text, and then two tool calls in the given fragments, one list a chunk."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        for event in chat.events(ask, answer):
            if event.finish:
                for calls in fragments:
                    yield Event(data=chat.chunk(ask, {"tool_calls": calls}))
                yield Event(data=chat.chunk(ask, {}, "tool_calls"), finish="tool_calls")
            else:
                yield event

    return shape


def call(arguments: str, *, name: str = "", **more: Any) -> Chunk:
    """One fragment of a tool call."""
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    start = {"type": "function"} if name else {}
    return {**more, **start, "function": function}


def all_thought(ask: Ask) -> Answer:
    """Every token of the budget is reasoning."""
    planned = (Burst(0, BUDGET_TOKENS, 0.5, True),)
    return Answer((), capped(ask, planned), "length")


_A, _B = "call_simulated_a", "call_simulated_b"

SCENARIOS = (
    Quirk(
        name="sim:q40-reasoning",
        does="Reasoning in the field `reasoning`.",
        dialect="chat",
        shape=thinking_as(lambda text: {"reasoning": text, "content": ""}),
    ),
    Quirk(
        name="sim:q40-both-fields",
        does="The same reasoning in `reasoning` and `reasoning_content`.",
        dialect="chat",
        shape=thinking_as(lambda text: {"reasoning": text, "reasoning_content": text}),
    ),
    Quirk(
        name="sim:q40-details",
        does="The same reasoning in `reasoning` and `reasoning_details`.",
        dialect="chat",
        shape=thinking_as(detailed),
    ),
    Quirk(
        name="sim:q40-parts",
        does="Content as a list of parts, thinking ones among them.",
        dialect="chat",
        shape=choices(parts),
    ),
    Quirk(
        name="sim:q41-think-tags",
        does="Reasoning inside the content, its tags cut over deltas; the ledger has it as none.",
        dialect="chat",
        shape=inline("<thi", "nk>secret", " thought</thi", "nk>"),
    ),
    Quirk(
        name="sim:q41-bare-closing-tag",
        does="Reasoning inside the content with a closing tag alone.",
        dialect="chat",
        shape=inline("secret", " thought</", "think>"),
    ),
    Quirk(
        name="sim:q42-no-index",
        does="Two tool calls without any index.",
        dialect="chat",
        shape=called(
            [call('{"a"', id=_A, name="one")],
            [call(": 1}")],
            [call('{"b"', id=_B, name="two")],
            [call(": 2}")],
        ),
    ),
    Quirk(
        name="sim:q42-index-zero",
        does="Two tool calls, both with index 0 and told apart by their ids.",
        dialect="chat",
        shape=called(
            [call('{"a": 1}', index=0, id=_A, name="one")],
            [call('{"b": 2}', index=0, id=_B, name="two")],
        ),
    ),
    Quirk(
        name="sim:q42-no-id",
        does="Two tool calls, whose later fragments have an index and no id, interleaved.",
        dialect="chat",
        shape=called(
            [call("", index=0, id=_A, name="one")],
            [call("", index=1, id=_B, name="two")],
            [call('{"a"', index=0)],
            [call('{"b"', index=1)],
            [call(": 1}", index=0)],
            [call(": 2}", index=1)],
        ),
    ),
    Quirk(
        name="sim:q42-one-chunk",
        does="Several fragments of one tool call, and a second call, in one chunk.",
        dialect="chat",
        shape=called(
            [
                call('{"a"', index=0, id=_A, name="one"),
                call(": 1}", index=0),
                call('{"b": 2}', index=1, id=_B, name="two"),
            ],
        ),
    ),
    Quirk(name="sim:q43-refusal", does="Declines, in the refusal channel.", answer=refuse),
    Quirk(
        name="sim:q44-budget-on-reasoning",
        does="600 reasoning tokens, no text, and a stop at the length limit.",
        answer=all_thought,
    ),
    Quirk(
        name="sim:q45-content-filter",
        does="A content filter stops the answer half-way.",
        answer=half_with("content_filter"),
    ),
)
