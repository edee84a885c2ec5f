"""Q01-Q12: what may happen to the lines of a stream between two events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, dropwhile

import msgspec

from tasks.local.simulator import framing
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import DONE, Event
from tasks.local.simulator.framing import Style
from tasks.local.simulator.scenarios.moves import (
    Writes,
    first_half,
    interrupted,
    over,
    restyled,
    rewritten,
    split,
    until_finish,
    with_data,
)
from tasks.local.simulator.scenarios.scenario import Quirk, Wiring, natural
from tasks.local.simulator.steps import Ending, Script, Send, Step

BOM = b"\xef\xbb\xbf"
CRLF = Style(newline=b"\r\n")


def glued_comments(data: bytes) -> bytes:
    inside = data.replace(b"\ndata: ", b"\n: heartbeat\ndata: ")
    return b": x-cost=0.1\n: x-model=simulated\n" + inside


def mixed_ends(writes: Writes) -> Iterator[Step]:
    """Each of the four is one line end and one blank line."""
    turn = cycle((b"\n\r\n", b"\r\n\n", b"\r\r\n", b"\r\r"))
    for step in writes:
        if isinstance(step, Send):
            yield with_data(step, step.data.removesuffix(b"\n\n") + next(turn))
        else:
            yield step


def split_at_cr(writes: Writes) -> Iterator[Step]:
    for step in writes:
        if isinstance(step, Send):
            yield from split(step, _after(step.data, b"\r"))
        else:
            yield step


def bom(writes: Writes) -> Iterator[Step]:
    yield Send(data=BOM)
    yield from writes


def bom_bytewise(writes: Writes) -> Iterator[Step]:
    for byte in BOM:
        yield Send(data=bytes((byte,)))
    yield from writes


def text_first(ask: Ask, answer: Answer) -> Iterator[Event]:
    """No opening and no thought: whoever loses the first event loses text."""
    return dropwhile(lambda event: not event.text, natural(ask, answer))


def tail(newlines: bytes) -> Wiring:
    """The event that ends the answer is the last, and lacks its blank line."""

    def wire(_ask: Ask, events: Iterable[Event]) -> Script:
        yield framing.SSE
        for step in framing.writes(until_finish(events)):
            if isinstance(step, Send) and step.finish:
                yield with_data(step, step.data.rstrip(b"\n") + newlines)
            else:
                yield step

    return wire


def tail_then_cut(_ask: Ask, events: Iterable[Event]) -> Script:
    """The last event may be half a document that happens to parse, so it is no text."""
    every = list(events)
    yield framing.SSE
    sent = list(first_half(every))
    yield from sent
    count = sum(step.text_tokens for step in sent if isinstance(step, Send))
    texts = [event for event in every if event.text]
    yield Send(data=framing.framed(texts[count]).rstrip(b"\n"))
    yield Ending.CUT


def two_documents(_ask: Ask, events: Iterable[Event]) -> Script:
    return framing.stream(paired(events, b"\n"))


def paired(events: Iterable[Event], between: bytes) -> Iterator[Event]:
    """Neighbouring pieces of text two to an event."""
    first: Event | None = None
    for event in events:
        if first is None:
            first = event if event.text else None
            if first is None:
                yield event
        elif event.text:
            yield _both(first, event, between)
            first = None
        else:
            yield from (first, event)
            first = None


def pretty(_ask: Ask, events: Iterable[Event]) -> Script:
    return framing.stream(_indented(event) for event in events)


def id_then_ping(writes: Writes) -> Iterator[Step]:
    for number, step in enumerate(writes):
        if isinstance(step, Send):
            yield with_data(step, b"id: %d\n%b" % (number, step.data))
            yield Send(data=b": ping\n\n")
        else:
            yield step


def _after(data: bytes, mark: bytes) -> list[int]:
    return [index + 1 for index in range(len(data)) if data[index : index + 1] == mark]


def _both(one: Event, two: Event, between: bytes) -> Event:
    return msgspec.structs.replace(
        one,
        data=(one.data or b"") + between + (two.data or b""),
        text=one.text + two.text,
        text_tokens=one.text_tokens + two.text_tokens,
    )


def _indented(event: Event) -> Event:
    if event.data is None or event.data == DONE:
        return event
    return msgspec.structs.replace(event, data=msgspec.json.format(event.data, indent=2))


_COMMENTS = (b": OPENROUTER PROCESSING\n\n", b": keep-alive\n\n", b": ping\n", b":\n\n")
_CONTROLS = (b"retry: 3000\n\n", b"event: ping\n\n", b"data:\n\n", b"id\n\n", b"nothing: known\n\n")

SCENARIOS = (
    Quirk(
        name="sim:q01-comments",
        does="Comments before and between events, some with a single newline.",
        wire=interrupted(*_COMMENTS),
    ),
    Quirk(
        name="sim:q02-glued-comments",
        does="Comments inside the block of every event, before its data.",
        wire=rewritten(glued_comments),
    ),
    Quirk(
        name="sim:q03-comment-as-data",
        does="A proxy re-emits comments as data: `data: : OPENROUTER PROCESSING`.",
        wire=interrupted(b"data: : OPENROUTER PROCESSING\n\n"),
    ),
    Quirk(
        name="sim:q04-no-space",
        does="No space after the colon of any field.",
        wire=restyled(Style(space=b"")),
    ),
    Quirk(name="sim:q05-crlf", does="Lines end in CR LF.", wire=restyled(CRLF)),
    Quirk(name="sim:q05-cr", does="Lines end in CR alone.", wire=restyled(Style(newline=b"\r"))),
    Quirk(name="sim:q05-mixed", does="Line ends of every kind, mixed.", wire=over(mixed_ends)),
    Quirk(
        name="sim:q05-split-crlf",
        does="Every CR and its LF arrive in different chunks.",
        wire=over(split_at_cr, CRLF),
    ),
    Quirk(
        name="sim:q06-bom",
        does="A byte order mark before the first line, which holds text.",
        shape=text_first,
        wire=over(bom),
    ),
    Quirk(
        name="sim:q06-bom-bytewise",
        does="The same, one byte of the mark a chunk.",
        shape=text_first,
        wire=over(bom_bytewise),
    ),
    Quirk(
        name="sim:q08-no-newline",
        does="The last event has no newline at all, then a clean end.",
        wire=tail(b""),
    ),
    Quirk(
        name="sim:q08-one-newline",
        does="The last event has one newline and no blank line, then a clean end.",
        wire=tail(b"\n"),
    ),
    Quirk(
        name="sim:q08-tail-then-cut",
        does="An event without its blank line, then the connection breaks: it is no text.",
        wire=tail_then_cut,
    ),
    Quirk(
        name="sim:q09-two-documents",
        does="Two JSON documents as two `data:` lines of one event.",
        wire=two_documents,
    ),
    Quirk(
        name="sim:q10-many-lines",
        does="Every document indented, over many `data:` lines.",
        wire=pretty,
    ),
    Quirk(
        name="sim:q11-control-blocks",
        does="Blocks of `retry`, `event`, `id`, empty `data` or an unknown field alone.",
        wire=interrupted(*_CONTROLS),
    ),
    Quirk(
        name="sim:q12-id-then-ping",
        does="An `id` on every event, and a comment after it.",
        wire=over(id_then_ping),
    ),
)
