"""R6-R8: answers that do not come, come too slowly, or come all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tasks.local.simulator import framing
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.faults import stall
from tasks.local.simulator.scenarios.moves import Writes, over, split
from tasks.local.simulator.scenarios.scenario import Quirk, wired
from tasks.local.simulator.steps import Ending, Pause, Script, Send, Step

#: Between two bytes of the slowest stream.
BYTE_S = 1.0
COMMENT_S = 5.0
#: An hour of comments; then nothing.
COMMENTS = 720
#: What a buffering proxy collects before it lets anything through.
BUFFER_BYTES = 16_384


def reset_before_headers(ask: Ask, events: Iterable[Event]) -> Script:
    """Nobody can tell whether the request was taken; it was, and it is billed."""
    if ask.nth > 1:
        return wired(ask, events)
    return iter((Ending.RESET,))


def no_headers(_ask: Ask, _events: Iterable[Event]) -> Script:
    yield Ending.HANG


def headers_only(_ask: Ask, _events: Iterable[Event]) -> Script:
    yield framing.SSE
    yield Ending.HANG


def comments_only(_ask: Ask, _events: Iterable[Event]) -> Script:
    yield framing.SSE
    for _ in range(COMMENTS):
        yield Pause(COMMENT_S)
        yield Send(data=b": keep-alive\n\n")
    yield Ending.HANG


def bytewise(writes: Writes) -> Iterator[Step]:
    for step in writes:
        if isinstance(step, Send):
            for piece in split(step, range(len(step.data))):
                yield Pause(BYTE_S)
                yield piece


def at_once(_ask: Ask, events: Iterable[Event]) -> Script:
    """Head and body come together, after the whole time."""
    steps = list(framing.writes(events))
    yield Pause(sum(step.seconds for step in steps if isinstance(step, Pause)))
    yield framing.SSE
    yield _merged([step for step in steps if isinstance(step, Send)])


def clumped(writes: Writes) -> Iterator[Step]:
    """Cut where the buffer is full, which is seldom where an event ends."""
    held: list[Send] = []
    for step in writes:
        if isinstance(step, Pause):
            yield step
            continue
        free = BUFFER_BYTES - sum(len(part.data) for part in held)
        *full, rest = split(step, range(free, len(step.data), BUFFER_BYTES))
        for piece in full:
            yield _merged([*held, piece])
            held.clear()
        held.append(rest)
    if held:
        yield _merged(held)


def _merged(parts: list[Send]) -> Send:
    return framing.merged(parts, b"".join(part.data for part in parts))


SCENARIOS = (
    Quirk(
        name="sim:r6-reset-before-headers",
        does="RST before any answer, for the first request of a prompt.",
        wire=reset_before_headers,
    ),
    Quirk(name="sim:r7-no-headers", does="Not even headers, and no end.", wire=no_headers),
    Quirk(name="sim:r7-headers-only", does="Headers, then silence.", wire=headers_only),
    Quirk(name="sim:r7-stall", does="Silence, and no end, after half of the text.", wire=stall),
    Quirk(
        name="sim:r7-slow-loris",
        does="One byte a second.",
        wire=over(bytewise),
    ),
    Quirk(
        name="sim:r7-comments-only",
        does="A comment every five seconds for an hour, and never an event.",
        wire=comments_only,
    ),
    Quirk(
        name="sim:r8-one-read",
        does="Headers and the whole stream together at the end.",
        wire=at_once,
    ),
    Quirk(
        name="sim:r8-16k",
        does="The stream in clumps of 16 KiB, cut anywhere.",
        wire=over(clumped),
    ),
)
