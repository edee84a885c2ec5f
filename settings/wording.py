"""How a message shows what a user wrote: short enough to help, never a credential.

A value can stand in the wrong place, and then it may be a secret. So only short texts are
quoted, and only names that look like the names they should be are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: API keys are longer; numbers, words and names that were meant are shorter.
SHOWN_CHARS = 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Names stand in Redis keys and in log lines, beside other words.
NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit"


def is_name(text: str) -> bool:
    """True when pools, accounts and keys may be called like this."""
    return _NAME.fullmatch(text) is not None


def shown(value: object) -> str:
    """`value` as a message may repeat it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        short = len(value) <= SHOWN_CHARS
        return repr(value) if short else f"a text of {len(value)} characters"
    if isinstance(value, int | float):
        return repr(value) if abs(value) < 10**SHOWN_CHARS else "a very large number"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, dict) else "a date or time"


def place(*path: str) -> str:
    """A name in the file as a message writes it: `pools.default.keys`."""
    return ".".join(name if is_name(name) and len(name) < 40 else shown(name) for name in path)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint that ends a message, or nothing when no choice is close."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(choices), n=1)
    return f", did you mean {close[0]!r}?" if close else ""
