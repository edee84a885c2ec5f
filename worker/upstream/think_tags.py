"""Takes reasoning out of a text that has it inline, between <think> and </think>.

A tag may be cut over several deltas, so the longest end of a text that could begin a tag is held
back until more comes. Off unless a job asks for it: elsewhere the tags are just text.
"""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """The state of one text."""

    def __init__(self) -> None:
        self._thinking = False
        self._held = ""

    def split(self, text: str) -> list[tuple[bool, str]]:
        """`text` in order, as pairs of whether it is reasoning, and the words."""
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
        held, self._held = self._held, ""
        return [(self._thinking, held)] if held else []


def _begun_tag(text: str, tag: str) -> str:
    """The longest end of `text` that could be the beginning of `tag`."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((tag[:size] for size in sizes if text.endswith(tag[:size])), "")
