"""The moves that quirks are made of: on events, and on the writes that carry them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle

import msgspec

from tasks.local.simulator import framing
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import DONE, Event
from tasks.local.simulator.framing import PLAIN, Style
from tasks.local.simulator.scenarios.scenario import Wiring
from tasks.local.simulator.steps import Ending, Head, Pause, Script, Send, Step

Writes = Iterator[Pause | Send]


def nothing(_ask: Ask) -> Answer:
    """No text is ever meant to arrive."""
    return Answer(())


def over(
    change: Callable[[Writes], Iterator[Step]], style: Style = PLAIN, head: Head = framing.SSE
) -> Wiring:
    """An ordinary stream whose writes go through `change`."""

    def wire(_ask: Ask, events: Iterable[Event]) -> Script:
        yield head
        yield from change(framing.writes(events, style))

    return wire


def restyled(style: Style) -> Wiring:
    """An ordinary stream with other line ends or other spaces."""
    return over(lambda writes: writes, style)


def rewritten(change: Callable[[bytes], bytes]) -> Wiring:
    """Every write changed by `change`."""

    def each(writes: Writes) -> Iterator[Step]:
        for step in writes:
            yield with_data(step, change(step.data)) if isinstance(step, Send) else step

    return over(each)


def interrupted(*blocks: bytes) -> Wiring:
    """One of `blocks`, in turn, before every write, as a write of its own."""

    def each(writes: Writes) -> Iterator[Step]:
        turn = cycle(blocks)
        for step in writes:
            if isinstance(step, Send):
                yield Send(data=next(turn))
            yield step

    return over(each)


def with_data(step: Send, data: bytes) -> Send:
    return msgspec.structs.replace(step, data=data)


def split(step: Send, cuts: Iterable[int]) -> Iterator[Send]:
    """One write as several; what it carries arrives with the last of them."""
    start = 0
    for cut in sorted(set(cuts)):
        if start < cut < len(step.data):
            yield Send(data=step.data[start:cut])
            start = cut
    yield with_data(step, step.data[start:])


def silent(event: Event) -> Event:
    """`event`, no longer counted as text."""
    return msgspec.structs.replace(event, text="", text_tokens=0)


def until_text(events: Iterable[Event]) -> Iterator[Event]:
    """The events before anything was said, visibly or not."""
    for event in events:
        if event.text or event.thinking_tokens or event.finish:
            return
        yield event


def until_finish(events: Iterable[Event]) -> Iterator[Event]:
    """The events up to the one that tells how the answer ended."""
    for event in events:
        yield event
        if event.finish:
            return


def without_done(events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.data != DONE)


def first_half(events: Iterable[Event]) -> Writes:
    """The writes up to the middle of the text."""
    every = list(events)
    return first_tokens(every, sum(event.text_tokens for event in every) // 2)


def first_tokens(events: Iterable[Event], count: int) -> Writes:
    """The writes up to the one that would bring more than `count` tokens of text."""
    left = count
    for step in framing.writes(events):
        if isinstance(step, Send):
            if step.text and left <= 0:
                return
            left -= step.text_tokens
        yield step


def ended_by(ending: Ending) -> Wiring:
    """The whole stream, and then an end that is not the clean one."""

    def each(writes: Writes) -> Iterator[Step]:
        yield from writes
        yield ending

    return over(each)
