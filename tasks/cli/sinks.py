"""Where a followed job is shown: one sink per kind of output.

Text goes to stdout and everything else to stderr, so a pipe gets the answer and nothing else.
"""

from __future__ import annotations

import os
import re
import select
import stat
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

import msgspec

from tasks.cli.columns import harmless
from tasks.edits.paths import shown
from tasks.splice import Piece, Splice
from worker.log.view import Attempt, Cut, End, Followed, Note, Status, Text

_SECONDS = re.compile(r"\d+ s\b")
_AHEAD = re.compile(r"(\d+)(?= ahead of it)")


class Sink(Protocol):
    """Gets every item of a followed job, in order. `options`: how it is asked for, as typed."""

    options: str

    def take(self, item: Followed) -> None: ...

    def say(self, line: str) -> None:
        """A line of its own, for the person."""

    def close(self) -> None: ...


def as_json(item: Followed) -> Mapping[str, Any]:
    """One item as the object `--json` prints for it; the cursor first."""
    fields: dict[str, Any] = msgspec.to_builtins(item)
    cursor = fields.pop("cursor", None)
    return fields if cursor is None else {"cursor": cursor, **fields}


class JsonSink:
    """One object a line, flushed line by line."""

    options = " --json"

    def take(self, item: Followed) -> None:
        sys.stdout.write(msgspec.json.encode(as_json(item)).decode() + "\n")
        sys.stdout.flush()

    def say(self, line: str) -> None:
        sys.stderr.write(f"longstream: {line}\n")

    def close(self) -> None:
        return


class PipeSink:
    """Text to `out`, the rest as lines to stderr. A file is rewound on a cut, a pipe is told.

    Raises BrokenPipeError when nobody reads the pipe any more, also while no text comes.
    """

    options = ""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._splice = Splice()
        #: As with 2>&1: then lines come between the text, which must not be cut off behind them.
        self._shared = out is not None and _is_one_place(out, sys.stderr)
        #: Whether the last line of text has no end yet.
        self._open = False
        self._file = (
            out is not None and not self._shared and stat.S_ISREG(os.fstat(out.fileno()).st_mode)
        )
        # On a terminal that can not be drawn on, an answer still must not reach the controls.
        self._shown: Callable[[str], str] = harmless if out is not None and out.isatty() else str
        self._start = os.lseek(out.fileno(), 0, os.SEEK_END) if out and self._file else 0
        self._said = ""
        #: Why the last attempt ended, once that was said.
        self._reason = ""

    def take(self, item: Followed) -> None:
        if isinstance(item, Text):
            self._write(self._splice.text(item.offset, item.text))
        elif isinstance(item, Cut):
            self._splice.cut(item.offset)
        elif isinstance(item, End):
            if voided := self._splice.end():
                self._rewind(voided)
        else:
            self._notice_a_closed_pipe()
            if line := self._news(item):
                self.say(line)

    def close(self) -> None:
        self._end_line()

    def _end_line(self) -> None:
        if self._shared and self._open:
            self._open = False
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _news(self, item: Followed) -> str:
        """The line about an item, without what was said of it before."""
        if isinstance(item, Status) and is_usual(item) and self._splice.shown:
            return ""
        if not self._reason:
            line = line_of(item)
        elif isinstance(item, Status):
            unsaid = self._unsaid(item.detail)
            line = line_of(msgspec.structs.replace(item, detail=unsaid)) if unsaid else ""
        elif isinstance(item, Attempt) and item.reason == self._reason:
            line = line_of(msgspec.structs.replace(item, reason=""))
        else:
            line = line_of(item)
        if isinstance(item, (Note, Attempt)) and item.reason:
            self._reason = item.reason
        return line

    def _unsaid(self, detail: str) -> str:
        return detail.removesuffix(f"last time: {self._reason}").removesuffix("; ")

    def _write(self, piece: Piece) -> None:
        if piece.rewind_to is not None:
            self._rewind(piece)
        if self._out is not None and piece.text:
            self._out.write(self._shown(piece.text))
            self._out.flush()
            self._open = not piece.text.endswith("\n")

    def _rewind(self, piece: Piece) -> None:
        if self._out is None:
            return
        if self._file:
            kept = len(self._splice.shown[: piece.rewind_to].encode("utf-8", "surrogatepass"))
            os.ftruncate(self._out.fileno(), self._start + kept)
            os.lseek(self._out.fileno(), 0, os.SEEK_END)
        else:
            self.say(
                f"the answer was restarted and differs from character {piece.offset} on: what "
                "came from there is void, and the new text follows"
            )

    def _notice_a_closed_pipe(self) -> None:
        if self._out is not None and not self._file:
            poll = select.poll()
            poll.register(self._out.fileno(), 0)
            if any(what & select.POLLERR for _, what in poll.poll(0)):
                raise BrokenPipeError

    def say(self, line: str) -> None:
        # Seconds that tick away are no news, and a place is when it has about halved.
        gist = _AHEAD.sub(lambda place: str(int(place[0]).bit_length()), _SECONDS.sub("", line))
        if gist != self._said:
            self._said = gist
            self._end_line()
            sys.stderr.write(f"longstream: {line}\n")
            sys.stderr.flush()


def _is_one_place(one: TextIO, other: TextIO) -> bool:
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def is_usual(item: Status) -> bool:
    """True when it says no more than text does: the job runs."""
    return item.state == "running" and not item.detail.startswith("stopping")


def line_of(item: Followed) -> str:
    """What is worth a line about an item that is no text."""
    if isinstance(item, Status):
        return f"{item.state}: {item.detail}"
    if isinstance(item, Attempt) and item.attempt > 1:
        return f"attempt {item.attempt} on {item.worker} ({item.reason or item.mode})"
    if isinstance(item, Note):
        return f"{item.what.replace('_', ' ')}: {shown(item.name) if item.name else item.reason}"
    return ""
