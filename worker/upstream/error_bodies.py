"""Recognises an error in whatever JSON shape a provider puts it, inside a stream or as a body.

Shapes seen: an `error` object, string or list; a flat `type: error`; `object: error`; `detail`;
`errors`; a bare `message` or `msg` beside a `code`. Codes may be words or numbers.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from worker.upstream.sse import Decoder

#: What is longer is a page or an echo of the prompt.
_READ_CHARS = 4000


class ErrorBody(msgspec.Struct, frozen=True):
    """What a provider said about its error; `message` may repeat a key. `codes` holds every word it
    classified it with."""

    message: str = ""
    codes: tuple[str, ...] = ()
    param: str | None = None
    status: int | None = None
    delay: str | float | None = None


def error_in(document: Any) -> ErrorBody | None:
    """The error a document carries, or None when it is not one."""
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    if error:
        return _from_error(error, document)
    if _is_flat_error(document):
        return _from_mapping(document)
    if document.get("detail"):
        return ErrorBody(message=_message(document["detail"]))
    if errors := document.get("errors"):
        return _from_error(errors, document)
    return None


def error_in_bytes(body: bytes) -> ErrorBody | None:
    """The error a whole body carries, as JSON or as an event; None for a page and the like."""
    start = body.lstrip()
    if start.startswith((b"data:", b"event:", b":")):
        found = (_in_json(event.data) for event in Decoder().feed(start + b"\n\n"))
        return next((error for error in found if error), None)
    return _in_json(start)


def _in_json(data: bytes) -> ErrorBody | None:
    try:
        document = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list) and document:
        document = document[0]
    return error_in(document)


def _is_flat_error(document: dict[str, Any]) -> bool:
    if document.get("type") == "error" or document.get("object") == "error":
        return True
    said = document.get("message") or document.get("msg")
    if not isinstance(said, str) or not said or document.get("choices"):
        return False
    failed = document.get("success") is False or document.get("status") == "error"
    return failed or document.get("code") is not None


def _from_error(error: Any, document: dict[str, Any]) -> ErrorBody:
    if isinstance(error, list):
        error = error[0]
    if isinstance(error, dict):
        return _from_mapping(error, outer=document)
    return _from_mapping({**document, "message": error if isinstance(error, str) else ""})


def _from_mapping(error: dict[str, Any], outer: dict[str, Any] | None = None) -> ErrorBody:
    places = [error, outer or {}]
    words = [place.get(name) for place in places for name in ("code", "type", "status")]
    numbers = [number for word in words if (number := _status(word)) is not None]
    message = next((m for place in places if (m := _message(_said(place)))), "")
    return ErrorBody(
        message=message,
        codes=tuple(dict.fromkeys(w.lower() for w in words if isinstance(w, str) and w != "error")),
        param=error["param"] if isinstance(error.get("param"), str) else None,
        status=numbers[0] if numbers else None,
        delay=next((d for place in places if (d := _delay(place)) is not None), None),
    )


def _delay(place: dict[str, Any]) -> str | float | None:
    """A wait given as a field, here or in one of the `details`."""
    details = place.get("details")
    inner = [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []
    for fields in (place, *inner):
        for name in ("retry_after", "retryDelay", "retry_after_seconds"):
            value = fields.get(name)
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return value
    return None


def _said(place: dict[str, Any]) -> Any:
    return place.get("message") or place.get("msg") or place.get("detail")


def _status(word: Any) -> int | None:
    """A code that is an HTTP status, as a number or as its digits."""
    if isinstance(word, str) and word.isascii() and word.isdigit() and len(word) == 3:
        word = int(word)
    is_status = isinstance(word, int) and not isinstance(word, bool) and 400 <= word <= 599
    return word if is_status else None


def _message(said: Any) -> str:
    if isinstance(said, list) and said:
        said = said[0]
    if isinstance(said, dict):
        said = said.get("msg") or said.get("message") or ""
    if not isinstance(said, str):
        return ""
    # JSON can hold half a character, which neither the store nor a log can.
    return " ".join(said.split())[:_READ_CHARS].encode("utf-8", "replace").decode()
