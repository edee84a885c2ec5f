"""A followed job on a terminal: text as it arrives, and one status line below it while none does.

The status stands under the text and is wiped before the next text is written, so what scrolls
back is the answer alone. It is never drawn while the terminal owes a wrap: a line that fills the
screen exactly is ended first, since saving the cursor loses that debt on many terminals.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

from tasks.cli.columns import column, fitting, harmless
from tasks.cli.sinks import is_usual, line_of
from tasks.splice import Piece, Splice
from worker.log.view import Attempt, Cut, End, Followed, Status, Text, Thinking

#: The status appears when no text has come for this long, in seconds.
QUIET_S = 0.7
_REDRAW_S = 0.2

#: Move down without losing the column, so that the line below exists; up again; remember.
_OPEN = "\x1bD\x1b[1A\x1b7\x1b[1B"
_BACK = "\x1b8"
_BELOW = "\x1b7\x1b[1B"
_CLEAR = "\r\x1b[2K"


class TerminalSink:
    """Draws on `out`. `close` leaves the cursor at the start of an empty line."""

    options = ""

    def __init__(self, out: TextIO = sys.stdout, *, simulated: bool = False) -> None:
        self._out = out
        self._mark = " [simulated]" if simulated else ""
        self._splice = Splice()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._status = ""
        #: How the status stands there: "" not at all, "here" on the cursor's line, or "below" it.
        self._drawn = ""
        #: What the cursor's line holds, and whether it was ended for the status's sake.
        self._line = ""
        self._ended = False
        self._tokens = 0
        self._attempt: Attempt | None = None
        self._text_at = time.monotonic()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def take(self, item: Followed) -> None:
        with self._lock:
            if isinstance(item, Text):
                self._text_at, self._status = time.monotonic(), ""
                self._write(self._splice.text(item.offset, item.text))
            elif isinstance(item, Cut):
                self._splice.cut(item.offset)
            elif isinstance(item, End):
                if voided := self._splice.end():
                    self._write(voided)
            elif isinstance(item, Thinking):
                self._tokens, self._status = item.tokens, ""
            elif isinstance(item, Attempt):
                self._attempt, self._tokens = item, 0
                self._status = line_of(item)
            elif isinstance(item, Status):
                self._status = "" if is_usual(item) else line_of(item)
            else:
                self._status = line_of(item)

    def say(self, line: str) -> None:
        with self._lock:
            self._wipe()
            self._out.write(f"\n\x1b[1m── {harmless(line)} ──\x1b[0m\n")
            self._out.flush()

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._ticker.join()
        with self._lock:
            self._wipe()
            # Without a line of its own to end, what the terminal echoed of Ctrl-C goes.
            self._out.write("\r\n" if self._line else _CLEAR)
            self._out.flush()

    def draw(self, quiet_s: float) -> None:
        """Show the status as it is after `quiet_s` seconds without text."""
        columns = shutil.get_terminal_size().columns
        line = self._status or self._thinking(quiet_s)
        line = fitting(harmless(line), columns - 1 - len(self._mark)) + self._mark
        if not self._drawn:
            self._place(columns)
        elif self._drawn == "below":
            self._out.write(_BELOW)
        self._out.write(f"{_CLEAR}\x1b[2m{line}\x1b[0m")
        self._out.write(_BACK if self._drawn == "below" else "\r")
        self._out.flush()

    def _place(self, columns: int) -> None:
        """Make room for the status."""
        if column(self._line, columns) >= columns:
            self._out.write("\r\n")
            self._line, self._ended = "", True
        self._drawn = "below" if self._line else "here"
        if self._line:
            self._out.write(_OPEN)

    def _wipe(self) -> None:
        if self._drawn == "below":
            self._out.write(_BELOW + _CLEAR + _BACK)
        elif self._drawn:
            self._out.write(_CLEAR)
        self._drawn = ""

    def _write(self, piece: Piece) -> None:
        if not piece.text and piece.rewind_to is None:
            return
        self._wipe()
        if piece.rewind_to is not None:
            start = "\r\n" if self._line else ""
            mark = f"── restarted from character {piece.offset} ──"
            self._out.write(f"{start}\x1b[2m{mark}\x1b[0m\r\n")
            self._line, self._ended = "", False
        text = harmless(piece.text)
        if text:
            # The newline that ends a full line was written for the status already.
            self._out.write(text[1:] if self._ended and text[0] == "\n" else text)
            _, newline, last = text.rpartition("\n")
            self._line = last if newline else self._line + last
            self._ended = False
        self._out.flush()

    def _tick(self) -> None:
        while not self._closing.wait(_REDRAW_S):
            with self._lock:
                quiet_s = time.monotonic() - self._text_at
                if quiet_s >= QUIET_S:
                    self.draw(quiet_s)

    def _thinking(self, quiet_s: float) -> str:
        if self._attempt is None:
            return f"waiting for {quiet_s:.0f} s"
        return (
            f"thinking: {self._tokens:,} reasoning tokens, {quiet_s:.0f} s without text, "
            f"attempt {self._attempt.attempt}, key {self._attempt.key}"
        )
