"""Showing an answer that may be restarted, on an output that can not be rewound.

After a cut, text that repeats what is shown already is held back, so an answer that comes out the
same again goes on without a seam. Only when it turns out different does the output have to be
told.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """`text` to write next. `rewind_to`: everything shown from that character on is void."""

    text: str
    rewind_to: int | None = None


class Splice:
    """Pure: feed it cuts and texts in order."""

    def __init__(self) -> None:
        self._shown = ""
        self._length = 0

    @property
    def shown(self) -> str:
        """What an output that follows the pieces shows now."""
        return self._shown

    def cut(self, offset: int) -> None:
        """The answer's text ends at `offset` now. A reader that began later has less to forget."""
        self._length = max(0, min(self._length, offset - self._missing))

    def text(self, offset: int, text: str) -> Piece:
        """What to write for this text."""
        if not self._shown and not self._length:
            self._missing = offset
        again = self._shown[self._length : self._length + len(text)]
        if text.startswith(again):
            self._length += len(text)
            fresh = text[len(again) :]
            self._shown += fresh
            return Piece(fresh)
        start = self._length
        self._shown = self._shown[:start] + text
        self._length = len(self._shown)
        return Piece(text, rewind_to=start)

    def end(self) -> int | None:
        """Call at the end: where the output must be cut when the answer came out shorter."""
        if self._length == len(self._shown):
            return None
        self._shown = self._shown[: self._length]
        return self._length

    #: Characters before the point where this reader began.
    _missing = 0
