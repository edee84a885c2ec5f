"""The files of a request, read once.

`read_sources` reads every file exactly one time and reports all problems together. A
`SourceFile` carries the text that is sent and everything needed to give the bytes back; it
survives JSON, because it travels in the arguments of a job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from settings.errors import LongstreamError
from tasks.edits.decoding import LineEnding, Undecodable, decode, encode
from tasks.edits.disk import NotAFile, read_regular, words
from tasks.edits.paths import PathRefused, lexical_problem, locate, relative_to_root, shown

_DIRECTORY = "is a directory; give its files, for example with a glob: src/*.py"


class SourceError(LongstreamError):
    """Some files cannot be sent. `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as it was when it was read.

    `path` is relative to the root, with `/`, and has no link in it. `text` has `\\n` as its only
    line ending and no byte order mark. `sha256` and `size` are those of the bytes on the disk.
    """

    path: str
    text: str
    sha256: str
    size: int
    encoding: str = "utf-8"
    bom: bool = False
    line_ending: LineEnding = "\n"
    final_newline: bool = True

    def bytes_of(self, text: str) -> bytes:
        """`text` as this file would hold it. UnicodeEncodeError when its encoding cannot."""
        return encode(text, self.encoding, bom=self.bom, line_ending=self.line_ending)

    def text_of(self, lines: Sequence[str]) -> str:
        """Lines of an answer as text that ends the way this file does."""
        if not lines:
            return ""
        text = "\n".join(lines)
        if not self.text.startswith("\ufeff"):
            text = text.removeprefix("\ufeff")
        return text + "\n" if self.final_newline else text.rstrip("\n")


def source_file(path: str, data: bytes) -> SourceFile:
    """The file with these bytes, or `Undecodable`."""
    decoded = decode(data, path)
    return SourceFile(
        path=path,
        text=decoded.text,
        sha256=sha256(data).hexdigest(),
        size=len(data),
        encoding=decoded.encoding,
        bom=decoded.bom,
        line_ending=decoded.line_ending,
        final_newline=decoded.text.endswith("\n"),
    )


def read_sources(
    paths: Iterable[str | os.PathLike[str]], root: Path, max_bytes: int
) -> list[SourceFile]:
    """The files, in the order given, or one `SourceError` that names every problem."""
    reading = _Reading(root, max_bytes)
    for path in paths:
        reading.add(path)
    if not reading.files and not reading.problems:
        reading.problems.append("no files given: name at least one")
    if reading.problems:
        raise SourceError(reading.problems)
    return reading.files


class Gathered(msgspec.Struct, frozen=True):
    """`files` in the order they were asked for; `left_out`: path and why, in words for the user."""

    files: tuple[SourceFile, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def gather_sources(
    named: Iterable[str], found: Iterable[str], root: Path, max_bytes: int
) -> Gathered:
    """As `read_sources`; but of the files that were only found, those that can not be sent are left
    out."""
    reading = _Reading(root, max_bytes)
    for path in named:
        reading.add(path)
    if reading.problems:
        raise SourceError(reading.problems)
    left_out = []
    for path in found:
        try:
            reading.take(path)
        except (_Problem, PathRefused, NotAFile, Undecodable) as problem:
            vanished = isinstance(problem, _Vanished)
            left_out.append((path, "vanished before it was read" if vanished else str(problem)))
    return Gathered(tuple(reading.files), tuple(left_out))


class _Problem(Exception):
    """Why one file cannot be sent; the message follows the file's name."""


class _Vanished(_Problem):
    """There is no such file."""


class _Reading:
    """Files and problems so far, and which files on the disk they are."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.files: list[SourceFile] = []
        self.problems: list[str] = []
        self._root = root
        self._max_bytes = max_bytes
        self._seen: dict[tuple[int, int], str] = {}

    def add(self, given: str | os.PathLike[str]) -> None:
        try:
            self.take(os.fspath(given))
        except (_Problem, PathRefused, NotAFile, Undecodable) as problem:
            self.problems.append(f"{shown(os.fspath(given))}: {problem}")

    def take(self, given: str) -> None:
        self.files.append(self._read(given))

    def _read(self, given: str) -> SourceFile:
        if "\0" in given or not given:
            raise _Problem("is not a path")
        path = relative_to_root(self._root, given)
        if path == ".":
            raise _Problem(_DIRECTORY)
        # Git follows no link: a patch or a branch can only name the file that a link leads to.
        real = locate(self._root, path)
        path = relative_to_root(self._root, real)
        if (problem := lexical_problem(path)) is not None:
            raise _Problem(problem)
        data, status = self._bytes_of(real)
        self._refuse_duplicate((status.st_dev, status.st_ino), path)
        if not data:
            raise _Problem("is empty: there is nothing to change")
        if len(data) > self._max_bytes:
            raise _Problem(
                f"has {max(status.st_size, len(data))} bytes, over the limit of {self._max_bytes}; "
                "leave it out, or raise max_file_bytes (LONGSTREAM_MAX_FILE_BYTES)"
            )
        return source_file(path, data)

    def _bytes_of(self, path: Path) -> tuple[bytes, os.stat_result]:
        try:
            return read_regular(path, self._max_bytes + 1)
        except FileNotFoundError:
            raise _Vanished("no such file") from None
        except IsADirectoryError:
            raise _Problem(_DIRECTORY) from None
        except OSError as error:
            raise _Problem(f"cannot be read: {words(error)}") from None

    def _refuse_duplicate(self, identity: tuple[int, int], path: str) -> None:
        if identity in self._seen:
            raise _Problem(f"is the same file as {shown(self._seen[identity])}; name it once")
        self._seen[identity] = path
