"""Q07 and Q13-Q16: characters, broken characters, and lines without end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tasks.local.simulator import chat, framing
from tasks.local.simulator.answer import Answer, brief
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.prose import ASIDES, tokens
from tasks.local.simulator.scenarios.moves import Writes, over, split
from tasks.local.simulator.scenarios.scenario import Answering, Quirk, Wiring, natural
from tasks.local.simulator.steps import Script, Send, Step

SEPARATORS = "\u2028\u2029\x85"
CONTROLS = {"\x0b": rb"\u000b", "\x0c": rb"\f", "\x1c": rb"\u001c", "\x1d": rb"\u001d"}
#: The size of the one large event, and the pieces it comes in.
LARGE_BYTES = 4 * 2**20
PIECE_BYTES = 1_400
#: More than any client should be ready to hold.
ENDLESS_BYTES = 80 * 2**20


def with_tokens(*more: str) -> Answering:
    """The brief answer, with `more` between its words."""

    def answer(ask: Ask) -> Answer:
        short = brief(ask)
        middle = len(short.tokens) // 2
        mixed = (*short.tokens[:middle], *more, *short.tokens[middle:])
        return msgspec.structs.replace(short, tokens=mixed)

    return answer


def raw_controls(ask: Ask, answer: Answer) -> Iterator[Event]:
    """JSON wants control characters escaped; some servers do not."""
    for event in natural(ask, answer):
        escape = CONTROLS.get(event.text)
        if escape is not None and event.data is not None:
            data = event.data.replace(escape, event.text.encode())
            yield msgspec.structs.replace(event, data=data)
        else:
            yield event


def bytewise(writes: Writes) -> Iterator[Step]:
    """A write of its own for every byte of a character that has several."""
    for step in writes:
        if isinstance(step, Send):
            wide = [index for index, byte in enumerate(step.data) if byte > 0x7F]
            yield from split(step, [*wide, *(index + 1 for index in wide)])
        else:
            yield step


def invalid(ask: Ask, answer: Answer) -> Iterator[Event]:
    """The replacement characters that the answer has are sent as the bytes they stand for."""
    for event in natural(ask, answer):
        if event.data is None:
            yield event
        else:
            data = event.data.replace("\ufffd".encode(), b"\xff")
            yield msgspec.structs.replace(event, data=data)


def large(ask: Ask, events: Iterable[Event]) -> Script:
    """A line of 4 MiB before the text: encrypted reasoning, which nobody can read."""
    yield framing.SSE
    block = framing.framed(_encrypted(ask))
    for start in range(0, len(block), PIECE_BYTES):
        yield Send(data=block[start : start + PIECE_BYTES])
    yield from framing.writes(events)


def endless(start: bytes) -> Wiring:
    """A line that begins with `start` and goes on, instead of an answer."""

    def wire(_ask: Ask, _events: Iterable[Event]) -> Script:
        yield framing.SSE
        yield Send(data=start)
        piece = Send(data=b"x" * 65_536)
        for _ in range(ENDLESS_BYTES // len(piece.data)):
            yield piece

    return wire


def _encrypted(ask: Ask) -> Event:
    secret = "c2ltdWxhdGVk" * (LARGE_BYTES // 12)
    if ask.dialect == "chat":
        details = [{"type": "reasoning.encrypted", "data": secret}]
        return Event(data=chat.chunk(ask, {"reasoning_details": details}))
    item = {"id": "rs_large", "type": "reasoning", "encrypted_content": secret, "summary": []}
    kind = "response.output_item.done"
    return Event(
        data=msgspec.json.encode({"type": kind, "output_index": 0, "item": item}), name=kind
    )


SCENARIOS = (
    Quirk(
        name="sim:q07-line-separators",
        does="U+2028, U+2029 and U+0085 unescaped in the text.",
        answer=with_tokens(*SEPARATORS),
    ),
    Quirk(
        name="sim:q07-control-characters",
        does="VT, FF, FS and GS unescaped in the text, which JSON forbids.",
        answer=with_tokens(*CONTROLS),
        shape=raw_controls,
    ),
    Quirk(
        name="sim:q13-split-utf8",
        does="Every byte of a multi-byte character in a chunk of its own.",
        answer=with_tokens(*tokens("".join(ASIDES))),
        wire=over(bytewise),
    ),
    Quirk(
        name="sim:q14-invalid-utf8",
        does="Bytes FF in the text; the ledger has U+FFFD in their place.",
        answer=with_tokens(" \ufffd", "\ufffd"),
        shape=invalid,
    ),
    Quirk(
        name="sim:q15-large-event",
        does="A data line of 4 MiB in pieces of 1,400 bytes, before the text.",
        wire=large,
    ),
    Quirk(
        name="sim:q16-endless-line",
        does="80 MiB of one data line, and no answer.",
        wire=endless(b"data: "),
    ),
    Quirk(
        name="sim:q16-endless-comment",
        does="80 MiB of one comment, and no answer.",
        wire=endless(b": "),
    ),
)
