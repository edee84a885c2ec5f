"""The input of a batch, line by line, in constant memory, whatever is in it.

A line that is no request becomes a `Fault` with its number: nothing in a file stops the others.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from tasks.batches.bodies import URLS, BodyError, request_of

#: The longest line that is read; no model takes so much.
LINE_BYTES = 10 * 2**20
_BOM = b"\xef\xbb\xbf"
_DIGEST_BYTES = 4
_ID_CHARS = 512
_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `digest` tells whether a later run reads the same line."""

    line: int
    digest: str
    custom_id: str
    url: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that is no request, and why."""

    line: int
    digest: str
    custom_id: str | None
    code: str
    message: str


class Seen:
    """Which custom_ids there were, and in which line first: on disk, not in memory."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("CREATE TABLE seen (id BLOB PRIMARY KEY, line INTEGER) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def refuse_again(self, custom_id: str, line: int) -> None:
        """Raises BodyError when it stood in an earlier line."""
        key = hashlib.blake2b(custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self._db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (key, line))
        (first,) = self._db.execute("SELECT line FROM seen WHERE id = ?", (key,)).fetchone()
        if first != line:
            problem = f"custom_id {custom_id!r} stands in line {first} already"
            raise BodyError("duplicate_custom_id", problem)

    def close(self) -> None:
        self._db.close()


def read(file: IO[bytes]) -> Iterator[Asked | Fault]:
    """Every line that is not blank. A byte order mark at the start is no part of the first."""
    seen = Seen()
    try:
        for number, raw in _filled(file):
            yield _parsed(number, raw, seen)
    finally:
        seen.close()


@contextmanager
def rereadable(file: IO[bytes], folder: Path) -> Iterator[IO[bytes]]:
    """The file, or when that is a pipe, all of it in a nameless file of `folder`."""
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile(dir=folder) as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield copy


def count(file: IO[bytes]) -> int:
    """All lines, blank ones included; leaves the file at its start."""
    lines, last = 0, b"\n"
    while chunk := file.read(_CHUNK):
        lines += chunk.count(b"\n")
        last = chunk
    file.seek(0)
    return lines + (not last.endswith(b"\n"))


def numbers(file: IO[bytes]) -> Iterator[int]:
    """The numbers of the lines that `read` gives."""
    return (number for number, _ in _filled(file))


def _filled(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    return ((number, raw) for number, raw in _lines(file) if raw is None or raw.strip())


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None stands for one that is too long."""
    number = 0
    while line := file.readline(LINE_BYTES + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(_BOM)
        if len(line) <= LINE_BYTES or line.endswith(b"\n"):
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(LINE_BYTES)
        yield number, None


def _parsed(number: int, raw: bytes | None, seen: Seen) -> Asked | Fault:
    if raw is None:
        megabytes = LINE_BYTES // 2**20
        return Fault(number, "", None, "line_too_long", f"the line is over {megabytes} MB")
    digest = hashlib.blake2b(raw.strip(), digest_size=_DIGEST_BYTES).hexdigest()
    custom_id: str | None = None
    try:
        entry = _entry(raw)
        custom_id = _custom_id(entry)
        _check(entry)
        if b"\\u" in raw:
            _check_escapes(entry["body"])
        seen.refuse_again(custom_id, number)
    except BodyError as error:
        return Fault(number, digest, custom_id, error.code, str(error))
    return Asked(number, digest, custom_id, entry["url"], entry["body"])


def _entry(raw: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(raw.decode(), parse_constant=_no_number, parse_float=_finite)
    except UnicodeDecodeError:
        raise BodyError("invalid_encoding", "the line is not UTF-8 text") from None
    except RecursionError:
        raise BodyError("invalid_json", "the line is nested too deeply") from None
    except json.JSONDecodeError as error:
        problem = f"the line is not JSON: {error.msg} at character {error.pos + 1}"
        raise BodyError("invalid_json", problem) from None
    except ValueError:
        raise BodyError("invalid_json", "the line has a number that is too long") from None
    if not isinstance(entry, dict):
        raise BodyError("invalid_request", "the line is not a JSON object")
    return entry


def _check_escapes(body: dict[str, Any]) -> None:
    """Half of a surrogate pair can be escaped, but not sent."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise BodyError("invalid_encoding", f"the body has {half}, which is no character") from None


def _no_number(name: str) -> NoReturn:
    raise BodyError("invalid_json", f"the line is not JSON: {name} is no number")


def _finite(digits: str) -> float:
    """What is too large would be sent as null."""
    number = float(digits)
    if math.isinf(number):
        raise BodyError("invalid_json", f"the line has a number that is too large: {digits[:20]}")
    return number


def _custom_id(entry: dict[str, Any]) -> str:
    custom_id = entry.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise BodyError("missing_custom_id", "custom_id must be text that is not empty")
    if len(custom_id) > _ID_CHARS:
        raise BodyError("invalid_custom_id", f"custom_id has more than {_ID_CHARS} characters")
    return custom_id


def _check(entry: dict[str, Any]) -> None:
    if entry.get("method") != "POST":
        raise BodyError("invalid_method", "method must be POST")
    if entry.get("url") not in URLS:
        raise BodyError("invalid_url", f"url must be one of {', '.join(URLS)}")
    if not isinstance(entry.get("body"), dict):
        raise BodyError("invalid_body", "body must be an object")
    request_of(entry["url"], entry["body"])
