"""Tells by its first bytes what the body of a successful answer is, whatever its label says.

Labels lie both ways: events come as text/plain, and error objects as text/event-stream.
"""

from __future__ import annotations

import re
from enum import Enum

_FIELD = re.compile(rb"(?:data|event|id|retry)?[:\r\n]|(?:data|event|id|retry)$")
_BEGUN_FIELD = re.compile(rb"(?:d|da|dat|data|e|ev|eve|even|event|i|id|r|re|ret|retr|retry)$")
_BOM = b"\xef\xbb\xbf"


class Body(Enum):
    """What a body is."""

    EVENTS = "events"
    JSON = "json"
    OTHER = "other"


def body_of(begun: bytes, content_type: str) -> Body | None:
    """What a body that begins like this is; None while more bytes are needed to tell."""
    start = begun.removeprefix(_BOM).lstrip()
    if not start or _BOM.startswith(begun):
        return None
    if start[:1] in b"{[":
        return Body.JSON
    if start[:1] == b"<":
        return Body.OTHER
    if is_event_stream(content_type) or _FIELD.match(start):
        return Body.EVENTS
    return None if _BEGUN_FIELD.match(start) else Body.OTHER


def is_event_stream(content_type: str) -> bool:
    """Whether the label says server-sent events, parameters and stray semicolons aside."""
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"
