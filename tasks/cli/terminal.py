"""A followed job on a terminal: text as it arrives, and one status line below it while none does.

The status stands on the line under the text and is wiped before the next text is written, so what
scrolls back is the answer alone. Control characters in an answer are made visible: a model's text
must not be able to drive the terminal.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

from tasks.cli.sinks import line_of
from tasks.cli.splice import Piece, Splice
from worker.log.view import Attempt, Cut, End, Followed, Status, Text, Thinking

#: The status appears when no text has come for this long, in seconds.
_QUIET_S = 0.7
_REDRAW_S = 0.2

#: Move down without losing the column, back up, and remember the place: the line below exists now.
_OPEN = "\x1bD\x1b[1A\x1b7\x1b[1B\r\x1b[2K"
_CLOSE = "\x1b8"
_WIPE = "\x1b7\x1b[1B\r\x1b[2K\x1b8"

_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: 0x2421} | dict.fromkeys(range(128, 160), 65533)


def harmless(text: str) -> str:
    """The text with every control character but newline and tab made visible."""
    return text.translate(_VISIBLE)


class TerminalSink:
    """Draws on `out`. `close` leaves the cursor on a line of its own."""

    def __init__(self, out: TextIO = sys.stdout, *, simulated: bool = False) -> None:
        self._out = out
        self._mark = " [simulated]" if simulated else ""
        self._splice = Splice()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._status = ""
        self._drawn = False
        self._tokens = 0
        self._attempt: Attempt | None = None
        self._text_at = time.monotonic()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def take(self, item: Followed) -> None:
        with self._lock:
            if isinstance(item, Text):
                self._text_at = time.monotonic()
                self._write(self._splice.text(item.offset, item.text))
            elif isinstance(item, Cut):
                self._splice.cut(item.offset)
            elif isinstance(item, End):
                self._write(Piece("", self._splice.end()))
            elif isinstance(item, Thinking):
                self._tokens, self._status = item.tokens, ""
            elif isinstance(item, Attempt):
                self._begin(item)
            elif isinstance(item, Status):
                self._status = "" if item.state == "running" else line_of(item)
            else:
                self._status = line_of(item)

    def say(self, line: str) -> None:
        with self._lock:
            self._wipe()
            self._out.write(f"\n\x1b[1m── {harmless(line)} ──\x1b[0m\n")
            self._out.flush()

    def close(self) -> None:
        self._closing.set()
        self._ticker.join()
        with self._lock:
            self._wipe()
            if self._splice.shown and not self._splice.shown.endswith("\n"):
                self._out.write("\n")
            self._out.flush()

    def _begin(self, attempt: Attempt) -> None:
        self._attempt, self._tokens = attempt, 0
        self._status = line_of(attempt)

    def _write(self, piece: Piece) -> None:
        if not piece.text and piece.rewind_to is None:
            return
        self._wipe()
        if piece.rewind_to is not None:
            self._out.write(f"\n\x1b[2m── restarted from character {piece.rewind_to} ──\x1b[0m\n")
        self._out.write(harmless(piece.text))
        self._out.flush()

    def _tick(self) -> None:
        while not self._closing.wait(_REDRAW_S):
            with self._lock:
                quiet_s = time.monotonic() - self._text_at
                if quiet_s >= _QUIET_S:
                    self._draw(quiet_s)

    def _draw(self, quiet_s: float) -> None:
        line = (self._status or self._thinking(quiet_s)) + self._mark
        width = shutil.get_terminal_size().columns - 1
        self._out.write(f"{_OPEN}\x1b[2m{harmless(line)[:width]}\x1b[0m{_CLOSE}")
        self._out.flush()
        self._drawn = True

    def _thinking(self, quiet_s: float) -> str:
        if self._attempt is None:
            return f"waiting for {quiet_s:.0f} s"
        return (
            f"thinking: {self._tokens:,} reasoning tokens, {quiet_s:.0f} s since the last text, "
            f"attempt {self._attempt.attempt}, key {self._attempt.key}"
        )

    def _wipe(self) -> None:
        if self._drawn:
            self._out.write(_WIPE)
            self._drawn = False
