"""Cursors: positions in a log. The entry id is the fence, so order of ids is order of truth."""

from __future__ import annotations

from typing import NamedTuple

from settings.errors import LongstreamError


class CursorError(LongstreamError):
    """A cursor that no log can hold."""


class Cursor(NamedTuple):
    """The id of an entry, `<attempt>-<seq>`; compares by attempt, then seq."""

    attempt: int
    seq: int

    def __str__(self) -> str:
        return f"{self.attempt}-{self.seq}"

    @classmethod
    def parse(cls, text: str | bytes) -> Cursor:
        """Raises CursorError with what a cursor looks like."""
        if isinstance(text, bytes):
            text = text.decode("ascii", "replace")
        attempt, dash, seq = text.partition("-")
        if dash and attempt.isascii() and attempt.isdigit() and seq.isascii() and seq.isdigit():
            cursor = cls(int(attempt), int(seq))
            if max(cursor) < 2**63:
                return cursor
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise CursorError(f"not a cursor: {shown!r}; a cursor looks like 1-7, or 0-0 for the start")


#: Before the first entry of any log.
START = Cursor(0, 0)
