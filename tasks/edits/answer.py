"""Reads a model's answer as it arrives: blocks become files, everything else becomes notes.

`AnswerParser` is strict. It takes the answer in any pieces, and the pieces make no difference.
Two things are tolerated, since both can mean one thing only: CRLF line ends, and a code fence
around the whole content of a block when the file that was sent does not start with one and
nothing inside is fenced. Everything else that breaks the form is an `AnswerError`; files finished
before it stay in `files`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from settings.errors import LongstreamError
from tasks.edits.blocks import MARK
from tasks.edits.paths import shown
from tasks.edits.source import SourceFile

#: A marker in all but its boundary. Taking it for prose would lose a file in silence.
_LIKE_A_MARKER = re.compile(r"\s*={3,}\s*[0-9A-Fa-f]{4,} (file|end|none)\b")
_FENCE = "```"
_OPENING_FENCE = re.compile(r"```[\w.+-]*\s*")


class FileFinished(msgspec.Struct, frozen=True):
    """A block ended; the answer goes on at its character `offset`."""

    path: str
    offset: int


class Answer(msgspec.Struct, frozen=True):
    """A whole answer: new text by path, and the prose around the blocks."""

    files: dict[str, str]
    notes: str = ""


class AnswerError(LongstreamError):
    """The answer breaks the form in `line`, counted from 1."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(f"line {line} of the answer: {problem}")
        #: What the same piece of the answer ended before.
        self.before: tuple[FileFinished, ...] = ()


class AnswerParser:
    """Feed it the answer in order, then close it. After an error it only repeats the error."""

    def __init__(self, files: Sequence[SourceFile], boundary: str) -> None:
        self.files: dict[str, str] = {}
        self._sources = {file.path: file for file in files}
        self._mark = MARK + boundary
        self._partial: list[str] = []
        self._line = 0
        self._offset = 0
        self._block: _Block | None = None
        self._notes: list[str] = []
        self._nothing = False
        self._error: AnswerError | None = None
        self._closed = False

    def feed(self, text: str) -> list[FileFinished]:
        """The files that the lines completed by `text` ended."""
        self._refuse_if_over()
        *complete, rest = text.split("\n")
        events: list[FileFinished] = []
        try:
            for piece in complete:
                self._partial.append(piece)
                events += self._take_line(newline=True)
        except AnswerError as error:
            error.before = tuple(events)
            raise
        self._partial.append(rest)
        return events

    def take_rest(self) -> list[FileFinished]:
        """Take a last line that has no newline, once the answer is whole: often an end marker."""
        self._refuse_if_over()
        return self._take_line(newline=False) if any(self._partial) else []

    def close(self) -> Answer:
        """The whole answer, its last line included."""
        self.take_rest()
        if self._block is not None:
            raise self._unclosed(self._block)
        if not (self.files or self._nothing):
            raise self._failed("there is no file block in it")
        self._closed = True
        return Answer(files=dict(self.files), notes="\n".join(self._notes).strip())

    def _take_line(self, *, newline: bool) -> list[FileFinished]:
        raw = "".join(self._partial)
        self._partial.clear()
        self._offset += len(raw) + newline
        self._line += 1
        line = raw.removesuffix("\r")
        if line.startswith(self._mark):
            return self._marker(line.removeprefix(self._mark))
        if self._block is not None:
            self._content(line)
        else:
            self._note(line)
        return []

    def _marker(self, words: str) -> list[FileFinished]:
        if words == " end":
            return [self._finish()]
        if words.startswith(' file "'):
            self._start(self._path(words.removeprefix(" file ")))
            return []
        if words == " none":
            if self._block is not None:
                raise self._unclosed(self._block)
            self._nothing = True
            return []
        raise self._failed("a marker says neither file, end nor none")

    def _path(self, quoted: str) -> str:
        try:
            path: str = json.loads(quoted)
        except ValueError:
            raise self._failed("the path in a marker is not a JSON string") from None
        return path

    def _start(self, path: str) -> None:
        if self._block is not None:
            raise self._unclosed(self._block)
        source = self._sources.get(path)
        if source is None:
            raise self._failed(f"{shown(path)} is not one of the files that were sent")
        if path in self.files:
            raise self._failed(f"{shown(path)} has a block already")
        self._block = _Block(source)

    def _finish(self) -> FileFinished:
        if self._block is None:
            raise self._failed("an end marker closes no block")
        path = self._block.source.path
        self.files[path] = self._block.text()
        self._block = None
        return FileFinished(path, self._offset)

    def _content(self, line: str) -> None:
        assert self._block is not None
        if "\r" in line:
            raise self._failed("a carriage return ends no line")
        self._block.lines.append(line)

    def _note(self, line: str) -> None:
        if _LIKE_A_MARKER.match(line) or line.lstrip().startswith(self._mark):
            raise self._failed("a marker has another boundary, or does not start its line")
        self._notes.append(line)

    def _unclosed(self, block: _Block) -> AnswerError:
        return self._failed(f"the block of {shown(block.source.path)} is not closed")

    def _failed(self, problem: str) -> AnswerError:
        self._error = AnswerError(problem, max(self._line, 1))
        return self._error

    def _refuse_if_over(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise ValueError("the answer is closed")


class _Block:
    """The open block: the file it is for, and its lines so far."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.lines: list[str] = []

    def text(self) -> str:
        lines = self.lines[1:-1] if self._is_fenced() else self.lines
        return self.source.text_of(lines)

    def _is_fenced(self) -> bool:
        if len(self.lines) < 2 or self.source.text.startswith(_FENCE):
            return False
        first, *inner, last = self.lines
        return (
            _OPENING_FENCE.fullmatch(first) is not None
            and last.rstrip() == _FENCE
            and not any(line.lstrip().startswith(_FENCE) for line in inner)
        )
