"""Q46-Q51: ends that are missing, dirty, late, or not the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tasks.local.simulator import chat, framing
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.faults import eof
from tasks.local.simulator.scenarios.moves import (
    ended_by,
    first_half,
    until_finish,
    without_done,
)
from tasks.local.simulator.scenarios.scenario import Quirk
from tasks.local.simulator.steps import Ending, Framing, Head, Raw, Script, Send


def no_done(_ask: Ask, events: Iterable[Event]) -> Script:
    return framing.stream(without_done(events))


def reset_after_finish(_ask: Ask, events: Iterable[Event]) -> Script:
    yield from framing.stream(until_finish(events))
    yield Ending.RESET


def cut_in_chunk(_ask: Ask, events: Iterable[Event]) -> Script:
    """A chunk that announces more than comes."""
    every = list(events)
    yield framing.SSE
    sent = list(first_half(every))
    yield from sent
    count = sum(step.text_tokens for step in sent if isinstance(step, Send))
    data = framing.framed([event for event in every if event.text][count])
    yield Raw(b"%x\r\n%b" % (len(data), data[: len(data) // 2]))
    yield Ending.CUT


def short_length(_ask: Ask, events: Iterable[Event]) -> Script:
    """A length that promises the whole answer."""
    every = list(events)
    length = sum(len(framing.framed(event)) for event in every)
    yield Head(headers=framing.SSE.headers, framing=Framing.LENGTH, length=length)
    yield from first_half(every)
    yield Ending.CUT


def until_close(_ask: Ask, events: Iterable[Event]) -> Script:
    """Only the end of the connection ends the body, so nothing shows that it is cut."""
    yield Head(headers=framing.SSE.headers, framing=Framing.CLOSE)
    yield from first_half(events)


def usage_after_done(ask: Ask, answer: Answer) -> Iterator[Event]:
    """Not before it as well, whatever was asked for: a client that stops there misses it."""
    visible = thinking = 0
    for event in chat.events(msgspec.structs.replace(ask, include_usage=False), answer):
        visible += event.text_tokens
        thinking += event.thinking_tokens
        yield event
    yield Event(data=chat.usage_chunk(ask, chat.usage(ask, visible, thinking)))


def text_after_done(ask: Ask, answer: Answer) -> Iterator[Event]:
    yield from chat.events(ask, answer)
    yield Event(data=chat.chunk(ask, {"content": " This came too late."}))


SCENARIOS = (
    Quirk(
        name="sim:q46-no-done",
        does="No `[DONE]` after the finish.",
        dialect="chat",
        wire=no_done,
    ),
    Quirk(
        name="sim:q47-clean-eof",
        does="A clean end of the body after half of the text.",
        wire=eof,
    ),
    Quirk(
        name="sim:q48-stays-open",
        does="The connection stays open after the end of the answer.",
        wire=ended_by(Ending.HANG),
    ),
    Quirk(
        name="sim:q49-reset-after-end",
        does="RST after the end of the answer.",
        wire=ended_by(Ending.RESET),
    ),
    Quirk(
        name="sim:q49-reset-after-finish",
        does="RST after the finish chunk, before `[DONE]`.",
        dialect="chat",
        wire=reset_after_finish,
    ),
    Quirk(
        name="sim:q49-no-last-chunk",
        does="FIN without the last HTTP chunk after the end of the answer.",
        wire=ended_by(Ending.CUT),
    ),
    Quirk(
        name="sim:q50-cut-in-chunk",
        does="FIN in the middle of an HTTP chunk, after half of the text.",
        wire=cut_in_chunk,
    ),
    Quirk(
        name="sim:q50-short-length",
        does="FIN before the announced content length, after half of the text.",
        wire=short_length,
    ),
    Quirk(
        name="sim:q50-until-close",
        does="A body that ends with its connection, after half of the text.",
        wire=until_close,
    ),
    Quirk(
        name="sim:q51-usage-after-done",
        does="Usage after `[DONE]` and not before it.",
        dialect="chat",
        shape=usage_after_done,
    ),
    Quirk(
        name="sim:q51-text-after-done",
        does="A stray delta after `[DONE]`; the ledger does not count it.",
        dialect="chat",
        shape=text_after_done,
    ),
)
