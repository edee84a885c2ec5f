"""How much a model reads and writes at once, in tokens.

As their makers document them; a model that is not listed gets figures that are small enough for
every model of these years, and nothing is refused because of them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct


class Window(Struct, frozen=True):
    """`context` bounds prompt and answer together, `output` the answer, reasoning included."""

    context: int
    output: int
    known: bool = True


_LISTED = {
    "gpt-5.5-codex*": Window(400_000, 128_000),
    "gpt-4.1*": Window(1_047_576, 32_768),
    "claude-sonnet-4*": Window(200_000, 64_000),
    "gemini-2.5-flash*": Window(1_048_576, 65_536),
    "deepseek-v3.2*": Window(128_000, 8_192),
}
UNLISTED = Window(128_000, 16_384, known=False)


def window_of(model: str) -> Window:
    """The first listed pattern that fits decides."""
    return next((w for pattern, w in _LISTED.items() if fnmatchcase(model, pattern)), UNLISTED)
