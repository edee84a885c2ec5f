"""Takes reasoning out of a text that has it inline, between <think> and </think>.

A tag may be cut over several deltas, so the longest end of a text that could begin a tag is held
back until more comes. Off unless a job asks for it: elsewhere the tags are just text.
"""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"

#: A text that has gone on for so long without any tag has none.
UNDECIDED_CHARS = 2**20


class ThinkTags:
    """The state of one text. `_thinking` is None before its first tag."""

    def __init__(self) -> None:
        self._thinking: bool | None = None
        self._undecided: list[str] = []
        self._chars = 0
        self._window = ""
        self._held = ""

    def split(self, text: str) -> list[tuple[bool, str]]:
        """`text` in order, as pairs of whether it is reasoning, and the words."""
        if self._thinking is None:
            text = self._beginning(text)
        if self._thinking is None:
            return []
        text = self._held + text
        pairs: list[tuple[bool, str]] = []
        while True:
            before, tag, text = text.partition(_CLOSE if self._thinking else _OPEN)
            if not tag:
                break
            pairs.append((self._thinking, before))
            self._thinking = not self._thinking
        self._held = _begun_tag(before, _CLOSE if self._thinking else _OPEN)
        pairs.append((self._thinking, before.removesuffix(self._held)))
        return [(thinking, words) for thinking, words in pairs if words]

    def close(self) -> list[tuple[bool, str]]:
        """What was held back, at the end of the text."""
        held = "".join(self._undecided) + self._held
        self._undecided, self._held = [], ""
        return [(bool(self._thinking), held)] if held else []

    def _beginning(self, text: str) -> str:
        """All of the text so far once it is known how it began, and nothing before."""
        self._undecided.append(text)
        self._chars += len(text)
        # Only the end of what is there can have become a tag by what came.
        window = self._window + text
        self._window = window[1 - len(_CLOSE) :]
        if not (_OPEN in window or _CLOSE in window or self._chars > UNDECIDED_CHARS):
            return ""
        begun = "".join(self._undecided)
        self._undecided = []
        opening, closing = begun.find(_OPEN), begun.find(_CLOSE)
        self._thinking = closing >= 0 and not 0 <= opening < closing
        return begun


def _begun_tag(text: str, tag: str) -> str:
    """The longest end of `text` that could be the beginning of `tag`."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((tag[:size] for size in sizes if text.endswith(tag[:size])), "")
