"""From events to writes: the bytes of the SSE format, and which of them share a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tasks.local.simulator.events import Event
from tasks.local.simulator.steps import Head, Pause, Script, Send

SSE = Head(
    headers=(
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    )
)


class Style(msgspec.Struct, frozen=True):
    """How lines are written: their end, and what follows the colon of a field."""

    newline: bytes = b"\n"
    space: bytes = b" "


PLAIN = Style()


def stream(events: Iterable[Event], style: Style = PLAIN, head: Head = SSE) -> Script:
    """The whole of an ordinary stream."""
    yield head
    yield from writes(events, style)


def writes(events: Iterable[Event], style: Style = PLAIN) -> Iterator[Pause | Send]:
    """Pauses and writes; events that are joined go out together."""
    held: list[Event] = []
    for event in events:
        if held and not event.joined:
            yield from _written(held, style)
            held.clear()
        held.append(event)
    if held:
        yield from _written(held, style)


def framed(event: Event, style: Style = PLAIN) -> bytes:
    """One event with its blank line."""
    if style is PLAIN and event.data is not None and not event.name and b"\n" not in event.data:
        return b"data: " + event.data + b"\n\n"
    return style.newline.join(_lines(event, style)) + style.newline * 2


def _lines(event: Event, style: Style) -> Iterator[bytes]:
    if event.comment:
        yield b":" + style.space + event.comment.encode()
    if event.name:
        yield b"event:" + style.space + event.name.encode()
    if event.data is not None:
        for line in event.data.split(b"\n"):
            yield b"data:" + style.space + line


def _written(events: list[Event], style: Style) -> Iterator[Pause | Send]:
    first = events[0]
    if first.pause_s > 0:
        yield Pause(first.pause_s)
    yield send(first, framed(first, style)) if len(events) == 1 else _clump(events, style)


def send(event: Event, data: bytes) -> Send:
    """`data` as the write that carries `event`."""
    return Send(
        data=data,
        text=event.text,
        text_tokens=event.text_tokens,
        thinking_tokens=event.thinking_tokens,
        finish=event.finish,
    )


def _clump(events: list[Event], style: Style) -> Send:
    parts = [send(event, framed(event, style)) for event in events]
    return merged(parts, b"".join(part.data for part in parts))


def merged(parts: list[Send], data: bytes) -> Send:
    """`data` as the one write that carries what `parts` carried."""
    return Send(
        data=data,
        text="".join(part.text for part in parts),
        text_tokens=sum(part.text_tokens for part in parts),
        thinking_tokens=sum(part.thinking_tokens for part in parts),
        finish=next((part.finish for part in reversed(parts) if part.finish), ""),
    )
