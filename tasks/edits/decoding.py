"""A file's bytes as text for a model, with all that is needed to put them back.

`decode` gives text with `\\n` as the only line ending and no byte order mark; for what it
accepts, `encode(text, ...)` gives the same bytes again. What cannot make that promise is refused:
binary files, unknown or lossy encodings, and files that mix line endings, since no answer could
say which line had which.
"""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from settings.errors import LongstreamError

LineEnding = Literal["\n", "\r\n", "\r"]

_PYTHON_SUFFIXES = frozenset({".py", ".pyi", ".pyw"})
_UTF16_OR_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_LINE_ENDING_NAMES: dict[str, str] = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}


class Undecodable(LongstreamError):
    """The bytes are not text longstream can give back unchanged. The message says why."""


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """`text` has only `\\n` and no byte order mark; the rest restores the bytes."""

    text: str
    encoding: str
    bom: bool
    line_ending: LineEnding


def is_python(path: str) -> bool:
    return PurePosixPath(path).suffix in _PYTHON_SUFFIXES


def decode(data: bytes, path: str) -> Decoded:
    """The text of a file. Python files may declare their encoding, others are UTF-8."""
    if data.startswith(_UTF16_OR_32):
        raise Undecodable("is UTF-16 or UTF-32 text; save it as UTF-8")
    if b"\0" in data:
        raise Undecodable("is a binary file")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data.removeprefix(codecs.BOM_UTF8)
    encoding = _declared_encoding(data) if is_python(path) else "utf-8"
    text = _strictly(body, encoding)
    ending = _line_ending(text)
    return Decoded(text=text.replace(ending, "\n"), encoding=encoding, bom=bom, line_ending=ending)


def encode(text: str, encoding: str, *, bom: bool, line_ending: LineEnding) -> bytes:
    """The bytes for `text`. UnicodeEncodeError when the encoding lacks a character."""
    body = text.replace("\n", line_ending).encode(encoding)
    return codecs.BOM_UTF8 + body if bom else body


def _declared_encoding(data: bytes) -> str:
    head = io.BytesIO(b"\n".join(re.split(rb"\r\n|\r|\n", data, maxsplit=2)[:2]))
    try:
        declared, _ = tokenize.detect_encoding(head.readline)
    except SyntaxError as error:
        raise Undecodable(
            f"has no encoding that Python accepts ({error.msg}); save it as UTF-8"
        ) from None
    return "utf-8" if declared == "utf-8-sig" else declared


def _strictly(body: bytes, encoding: str) -> str:
    try:
        text = body.decode(encoding)
        exact = text.encode(encoding) == body
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        byte = body[error.start]
        raise Undecodable(
            f"is not {encoding} text (byte 0x{byte:02x} in line {line}); save it as UTF-8"
        ) from None
    except (UnicodeError, LookupError, ValueError):
        exact = False
    if not exact:
        raise Undecodable(f"cannot be read as {encoding} and written back; save it as UTF-8")
    return text


def _line_ending(text: str) -> LineEnding:
    crlf = text.count("\r\n")
    counts: dict[LineEnding, int] = {
        "\n": text.count("\n") - crlf,
        "\r\n": crlf,
        "\r": text.count("\r") - crlf,
    }
    used = [ending for ending, count in counts.items() if count]
    if len(used) > 1:
        found = ", ".join(f"{counts[ending]} {_LINE_ENDING_NAMES[ending]}" for ending in used)
        raise Undecodable(f"mixes line endings ({found}); make them one kind first")
    return used[0] if used else "\n"
