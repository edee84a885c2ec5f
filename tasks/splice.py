"""Showing an answer that may be restarted, on an output that can not be rewound.

After a cut, text that repeats what is shown already is held back, so an answer that comes out the
same again goes on without a seam. Only when it turns out different does the output have to be
told.
"""

from __future__ import annotations

import msgspec


class Piece(msgspec.Struct, frozen=True):
    """`text` to write next. `rewind_to`: everything this output shows from that character on is
    void, which is character `offset` of the answer."""

    text: str
    rewind_to: int | None = None
    offset: int = 0


class Splice:
    """Pure: feed it cuts and texts in order."""

    def __init__(self) -> None:
        self._shown = ""
        #: How much of it is known to be valid.
        self._length = 0
        #: Characters before the point where this reader began; None before that is known.
        self._missing: int | None = None
        #: What the reader had before it began here is void as well.
        self._void = False

    @property
    def shown(self) -> str:
        """What an output that follows the pieces shows now."""
        return self._shown

    def cut(self, offset: int) -> None:
        """The answer's text ends at `offset` now."""
        if self._missing is None or offset < self._missing:
            self._missing, self._length, self._void = offset, 0, True
        else:
            self._length = min(self._length, offset - self._missing)

    def text(self, offset: int, text: str) -> Piece:
        """What to write for this text."""
        if self._missing is None:
            self._missing = offset
        again = self._shown[self._length : self._length + len(text)]
        if not self._void and text.startswith(again):
            self._length += len(text)
            fresh = text[len(again) :]
            self._shown += fresh
            return Piece(fresh)
        voided = self._rewound()
        self._shown += text
        self._length = len(self._shown)
        return Piece(text, voided.rewind_to, voided.offset)

    def end(self) -> Piece | None:
        """Call at the end: what to do when the answer came out shorter."""
        if self._length == len(self._shown) and not self._void:
            return None
        return self._rewound()

    def _rewound(self) -> Piece:
        self._void = False
        self._shown = self._shown[: self._length]
        return Piece("", self._length, self._length + (self._missing or 0))
