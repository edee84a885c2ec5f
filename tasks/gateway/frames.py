"""Server-sent events: what an item of a log looks like on the wire.

The id of an event is a cursor, so whoever gives it back as `Last-Event-ID` goes on right there.
What moves no cursor has no id. A frame is made once, for all readers of its log.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from worker.log.view import Followed

_encode = msgspec.json.Encoder().encode

#: How soon a client connects again when a connection is lost, in milliseconds.
RETRY = b"retry: 1000\n\n"
#: A comment keeps proxies from closing the connection; the event is for clients whose timers only
#: see events. Neither has an id.
HEARTBEAT = b": heartbeat\n\nevent: heartbeat\ndata: {}\n\n"


class Frame(NamedTuple):
    """`whole` is the event of a stream of one job; `event` and `data` are its parts."""

    event: bytes
    data: bytes
    whole: bytes
    #: The seal: nothing comes behind it.
    last: bool


def frame_of(item: Followed) -> Frame:
    event = str(item.__struct_config__.tag).encode()
    data = _encode(item)
    cursor = getattr(item, "cursor", None)
    place = b"" if cursor is None else b"id: %b\n" % cursor.encode()
    whole = b"%bevent: %b\ndata: %b\n\n" % (place, event, data)
    return Frame(event, data, whole, event == b"end")


def size_of(frame: Frame) -> int:
    """Bytes that keeping it costs, roughly."""
    return 2 * len(frame.whole) + 200


def event(name: str, data: object, place: str | None = None) -> bytes:
    head = f"id: {place}\n" if place is not None else ""
    return f"{head}event: {name}\ndata: ".encode() + _encode(data) + b"\n\n"
