"""One channel of an answer: what was said on it so far, and what a snapshot adds to that.

A character outside the basic plane may reach us as two halves in two deltas. The first half is
held back until the second comes, and replaced if it never does, so that every text handed on can
be encoded. Of a snapshot (the whole text once more) only the missing rest is said.
"""

from __future__ import annotations

from zlib import crc32


class Channel:
    """The state of one channel."""

    __slots__ = ("_chars", "_checksum", "_half")

    def __init__(self) -> None:
        self._half = ""
        self._chars = 0
        self._checksum = 0

    @property
    def spoke(self) -> bool:
        return self._chars > 0 or bool(self._half)

    @property
    def is_between(self) -> bool:
        """False while half a character is held back."""
        return not self._half

    def say(self, text: str, *, rough: bool = False) -> str:
        """What of `text` can be handed on now. `rough`: it may hold halves of characters."""
        if rough or self._half:
            text = self._mended(text)
        self._chars += len(text)
        self._checksum = crc32(text.encode(), self._checksum)
        return text

    def rest_of(self, snapshot: str) -> str | None:
        """What `snapshot` adds to all that was said; None when it contradicts that."""
        self.forget_half()
        snapshot = _paired(snapshot)
        said = snapshot[: self._chars]
        if not snapshot:
            return ""
        if len(said) < self._chars or crc32(said.encode()) != self._checksum:
            return None
        return snapshot[self._chars :]

    def forget_half(self) -> None:
        """A snapshot brings the whole character."""
        self._half = ""

    def close(self) -> str:
        """What is left to say at the end: a replacement for a half character, or nothing."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""

    def _mended(self, text: str) -> str:
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return _paired(text[: len(text) - len(self._half)])


def _paired(text: str) -> str:
    """Joins halves that stand side by side, and replaces those that stand alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
