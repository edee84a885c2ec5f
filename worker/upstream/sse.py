"""Server-sent events without I/O: bytes in, events out, as WHATWG defines them.

The events are the same however the bytes are cut. Work is linear in the bytes fed, and at most
`limit_bytes` of an unfinished event are held; beyond that `EventTooLarge` is raised. An event is
dispatched as soon as its blank line is there: a CR ends a line at once, and an LF that follows it
later is swallowed. Event data stay bytes, since a character may be cut by a read but never by an
event; `Event.text` replaces what is not UTF-8.

One deviation: WHATWG discards an event that the end of the body cuts off. `tail` hands it over,
and the caller judges whether it is whole.
"""

from __future__ import annotations

import msgspec

from settings.errors import LongstreamError

#: `response.completed` repeats the whole answer, and encrypted reasoning adds megabytes to it.
LIMIT_BYTES = 64 * 2**20

_BOM = b"\xef\xbb\xbf"


class EventTooLarge(LongstreamError):
    """An event grew past the limit before its end was seen."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One dispatched event."""

    data: bytes
    name: str = "message"

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class Decoder:
    """Decodes one body. `comments` counts comment lines, for whoever watches for life."""

    __slots__ = (
        "_data",
        "_limit",
        "_line",
        "_name",
        "_open",
        "_start",
        "_swallow_lf",
        "comments",
        "fresh",
        "last_id",
        "retry_ms",
    )

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.comments = 0
        self.last_id = ""
        self.retry_ms: int | None = None
        self._limit = limit_bytes
        self._start: bytes | None = b""
        self._line = bytearray()
        self._swallow_lf = False
        self._open = False
        #: Nothing of what came so far concerns what comes next.
        self.fresh = False
        self._data = bytearray()
        self._name = ""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes, in order."""
        if (
            self.fresh
            and chunk.startswith(b"data: ")
            and chunk.endswith(b"\n\n")
            and chunk.count(b"\n") == 2
            and b"\r" not in chunk
            and len(chunk) <= self._limit
        ):
            # Between bursts a read is one lone data line, and nothing else needs to be looked at.
            return [Event(chunk[6:-2])]
        events = self._fed(chunk)
        self.fresh = not (
            self._line or self._open or self._swallow_lf or self._start is not None or self._name
        )
        return events

    def _fed(self, chunk: bytes) -> list[Event]:
        if self._start is not None:
            chunk = self._without_bom(chunk)
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            chunk = chunk.removeprefix(b"\n")
        end = chunk.rfind(b"\n") + 1
        if b"\r" in chunk:
            end = max(end, chunk.rfind(b"\r") + 1)
        if not end:
            self._line += chunk
            if len(self._line) + len(self._data) > self._limit:
                raise self._too_large()
            return []
        lines = chunk[:end]
        if self._line:
            lines = bytes(self._line) + lines
            self._line = bytearray()
        self._line += chunk[end:]
        if b"\r" in lines:
            self._swallow_lf = end == len(chunk) and lines.endswith(b"\r")
            lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = self._blocks(lines)
        if len(self._line) + len(self._data) > self._limit:
            raise self._too_large()
        if len(lines) > self._limit and any(len(event.data) > self._limit for event in events):
            raise self._too_large()
        return events

    def tail(self) -> Event | None:
        """The event the end of the body cut off, taken as if its blank line had come."""
        if self._line:
            self._field(bytes(self._line))
            self._line = bytearray()
        return self._dispatch()

    def _without_bom(self, chunk: bytes) -> bytes:
        """Strips one BOM at the very start, also when it comes a byte at a time."""
        begun = (self._start or b"") + chunk
        if len(begun) < len(_BOM) and _BOM.startswith(begun):
            self._start = begun
            return b""
        self._start = None
        return begun.removeprefix(_BOM)

    def _too_large(self) -> EventTooLarge:
        return EventTooLarge(f"an event of the stream is larger than {self._limit} bytes")

    def _blocks(self, lines: bytes) -> list[Event]:
        """Takes whole lines, all ended by LF, apart at their blank lines."""
        if self._open:
            end = 0 if lines.startswith(b"\n") else lines.find(b"\n\n") + 1
            if not end and not lines.startswith(b"\n"):
                self._fields(lines)
                return []
            self._fields(lines[:end])
            event = self._dispatch()
            rest = self._blocks(lines[end + 1 :]) if end + 1 < len(lines) else []
            return rest if event is None else [event, *rest]
        if lines.startswith(b"data: ") and lines.endswith(b"\n\n"):
            # A burst is nothing but lone data lines. Every line of it then has exactly one blank
            # line after it, which one count proves for all of them.
            payloads = lines[6:-2].split(b"\n\ndata: ")
            if lines.count(b"\n") == 2 * len(payloads):
                return list(map(Event, payloads))
        *blocks, unfinished = lines.split(b"\n\n")
        events = [event for block in blocks if (event := self._block(block)) is not None]
        self._fields(unfinished)
        return events

    def _block(self, block: bytes) -> Event | None:
        if block.startswith(b"data: ") and b"\n" not in block:
            return Event(block[6:])
        self._fields(block)
        return self._dispatch()

    def _fields(self, lines: bytes) -> None:
        # An empty line here is a blank line before the block, which dispatches nothing.
        for line in lines.split(b"\n"):
            if line:
                self._field(line)

    def _field(self, line: bytes) -> None:
        self._open = True
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value
            self._data += b"\n"
        elif not name:
            self.comments += 1
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self.last_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_ms = int(value)

    def _dispatch(self) -> Event | None:
        data, name = self._data, self._name
        self._open, self._name = False, ""
        if not data:
            return None
        self._data = bytearray()
        return Event(bytes(data[:-1]), name or "message")
