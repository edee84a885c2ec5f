"""From the data of events to JSON documents; what is broken is mended or refused.

The fast path decodes all events of a read in one call to documents of `shape`. An event that does
not fit is taken slowly and comes out as a plain dict: bytes that are not UTF-8 are replaced,
control characters and lone surrogates tolerated, a document cut over several events rejoined,
several documents in one event taken apart. Every mending is counted in `notes`. What cannot be
mended becomes `failed`, after the documents before it; nothing is skipped in silence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from enum import Enum
from typing import Any, Final, Generic, TypeVar

import msgspec

from worker.upstream.failures import UpstreamFailure, malformed
from worker.upstream.sse import Event

T = TypeVar("T")

#: A document cut more often than this is not cut but broken.
MAX_PIECES = 16

#: The error of a cut document lies at its end, or at a literal or an escape begun there.
_CUT_CHARS = 8

_parser = json.JSONDecoder(strict=False)
_between = re.compile(r"[\s,]*(?:data:[ \t]*)?")


class Sentinel(Enum):
    """What a chat stream ends with instead of a document."""

    DONE = "[DONE]"


DONE: Final = Sentinel.DONE

#: What a decoder raises for data that do not fit its shape.
UNFIT = (msgspec.DecodeError, RecursionError)


class Shape(Generic[T]):
    """The decoders of one shape. Made once, since that takes longer than decoding a burst."""

    def __init__(self, shape: type[T]) -> None:
        self.one = msgspec.json.Decoder(shape)
        self.many: msgspec.json.Decoder[list[T]] = msgspec.json.Decoder(list[shape])  # type: ignore[valid-type]


class Documents(Generic[T]):
    """Reads one stream's events."""

    def __init__(self, shape: Shape[T]) -> None:
        self.notes: Counter[str] = Counter()
        self.failed: UpstreamFailure | None = None
        self._shape = shape
        self._fragment = b""
        self._pieces = 0

    def take(self, events: list[Event]) -> list[T | dict[str, Any] | Sentinel]:
        """The documents that `events` complete, in order; none once `failed`."""
        if self.failed is not None:
            return []
        if not self._fragment and len(events) > 1:
            # No JSON string goes over a line end, so a cut one cannot be joined to its rest here.
            payloads = b",\n".join([event.data for event in events])
            try:
                found = self._shape.many.decode(b"[%b]" % payloads)
            except UNFIT:
                pass
            else:
                if len(found) == len(events):
                    return found  # type: ignore[return-value]
        documents: list[T | dict[str, Any] | Sentinel] = []
        for event in events:
            try:
                if not self._fragment:
                    documents.append(self._shape.one.decode(event.data))
                    continue
            except UNFIT:
                pass
            documents += [_typed(found, event.name) for found in self._event(event.data)]
            if self.failed is not None:
                break
        return documents

    @property
    def is_between(self) -> bool:
        """Nothing of what came so far concerns what comes next."""
        return self.failed is None and not self._fragment

    def completes(self, event: Event) -> bool:
        """Whether this unterminated event is nevertheless whole."""
        if event.data.strip() == b"[DONE]":
            return True
        text = (self._fragment + event.data).decode("utf-8", "replace")
        values, end, broken = _apart(text)
        return bool(values) and end == len(text) and not broken

    def close(self) -> None:
        """The stream is over: a document that was cut and never completed is counted."""
        self.notes.update({"unfinished_document": 1} if self._fragment else {})
        self._fragment = b""

    def _event(self, data: bytes) -> list[T | dict[str, Any] | Sentinel]:
        stripped = data.strip()
        if not stripped:
            self.notes["empty_event"] += 1
        elif stripped.startswith(b":") and not self._fragment:
            self.notes["comment_as_data"] += 1
        elif stripped != b"[DONE]":
            return self._slowly(data)
        elif self._fragment:
            self._refuse("a document was cut and never completed", self._fragment)
        else:
            return [DONE]
        return []

    def _slowly(self, data: bytes) -> list[T | dict[str, Any] | Sentinel]:
        whole, self._fragment = self._fragment + data, b""
        text = whole.decode("utf-8", "replace")
        values, end, broken = _apart(text)
        if broken:
            self._refuse("an event's data are not JSON", whole)
        elif end < len(text):
            self._keep(_from(end, text, whole), data)
        else:
            self._pieces = 0
        if len(values) > 1:
            self.notes["glued_documents"] += 1
        if "\ufffd" in text[:end] and b"\xef\xbf\xbd" not in whole:
            self.notes["replaced_bytes"] += 1
        return [document for value in values for document in self._objects(value)]

    def _keep(self, fragment: bytes, latest: bytes) -> None:
        """Holds a cut document until its next piece, unless that piece was a document itself."""
        self._pieces += 1
        if self._pieces > MAX_PIECES or (self._pieces > 1 and _is_object(latest)):
            self._refuse("a document was cut and never completed", fragment)
            return
        self.notes["split_document"] += self._pieces == 1
        self._fragment = fragment

    def _objects(self, value: Any) -> list[dict[str, Any]]:
        if isinstance(value, dict):
            return [value]
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            self.notes["list_of_documents"] += 1
            return value
        self.notes["null_event" if value is None else "stray_value"] += 1
        return []

    def _refuse(self, what: str, sample: bytes) -> None:
        self._fragment = b""
        self.failed = malformed(what, sample)


def _typed(document: Any, name: str) -> Any:
    """The name of an event is the type of a document that has none itself."""
    if name != "message" and isinstance(document, dict) and not document.get("type"):
        document["type"] = name
    return document


def _apart(text: str) -> tuple[list[Any], int, bool]:
    """All values in `text`, where they end, and whether what follows is broken and not just cut."""
    values: list[Any] = []
    at = 0
    while (at := _skip(text, at)) < len(text):
        try:
            value, at = _parser.raw_decode(text, at)
        except json.JSONDecodeError as error:
            return values, at, not _is_cut(text, at, error)
        except RecursionError:
            return values, at, True
        values.append(value)
    return values, at, False


def _from(end: int, text: str, data: bytes) -> bytes:
    """The bytes of `data` after `text[:end]`; a character may be cut at their very end."""
    begin = len(text[:end].encode())
    exact = data[:begin].decode("utf-8", "replace") == text[:end]
    return data[begin:] if exact else text[end:].encode()


def _skip(text: str, at: int) -> int:
    """Over what may stand between two documents, a lost line end's field name included."""
    found = _between.match(text, at)
    return found.end() if found else at


def _is_cut(text: str, begin: int, error: json.JSONDecodeError) -> bool:
    if text[begin] not in "{[":
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= len(text) - _CUT_CHARS


def _is_object(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    values, end, _ = _apart(text)
    return end == len(text) and all(isinstance(value, dict) for value in values)
