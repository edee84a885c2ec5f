"""The environment: which variables count, and which are a typing mistake.

An empty variable counts as unset, so a compose file can pass on what may not be there. Unknown
variables with our prefix are refused when they come close to one we know; others may belong to
whatever runs beside us, and are named where someone looks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from settings.catalogue import PREFIX, SETTINGS
from settings.problems import Problems

CONFIG = f"{PREFIX}CONFIG"
SIMULATOR_URL = f"{PREFIX}SIMULATOR_URL"
#: Read by the embedded stack alone.
EMBEDDED = (f"{PREFIX}STATE_DIR", f"{PREFIX}SIMULATOR_SPEED")

#: How alike two names are, prefix aside, when one is a mistake for the other. Container
#: platforms add variables such as LONGSTREAM_REDIS_PORT, which must not count.
_ALIKE = 0.8

#: A last part of so many letters is a unit, and says nothing.
_SHORT = 3

#: What Docker and Kubernetes set for a service of our name.
_PLATFORM = re.compile(r"_(PORT|SERVICE_HOST|SERVICE_PORT|NAME|ENV)(_|$)")


def set_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that have a value."""
    return {name: value for name, value in environ.items() if value.strip()}


def refuse_misspelt(environ: Mapping[str, str], problems: Problems) -> None:
    """A problem for each variable that was meant for us and would be ignored."""
    words = _words()
    sections = tuple({f"{setting.path[0].upper()}__" for setting in SETTINGS})
    for name in environ:
        word = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or word in words:
            continue
        from difflib import get_close_matches

        close = get_close_matches(word, words, n=1, cutoff=_ALIKE)
        if close:
            problems.add(f"{name}: unknown variable, did you mean {PREFIX}{close[0]}?")
        elif word.startswith(sections):
            problems.add(f"{name}: unknown variable")


def ignored(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable with our prefix that means nothing, with what may have been meant;
    what a container platform adds is left out."""
    words = _words()
    lines = []
    for name in sorted(set_variables(environ)):
        word = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and word not in words and not _PLATFORM.search(word):
            meant = _nearest(word, words)
            guess = f", did you mean {PREFIX}{meant}?" if meant else ""
            lines.append(f"{name} is no setting and is ignored{guess}")
    return lines


def _words() -> list[str]:
    known = [CONFIG, SIMULATOR_URL, *EMBEDDED, *(setting.variable for setting in SETTINGS)]
    return [name.removeprefix(PREFIX) for name in known]


def _nearest(word: str, words: Sequence[str]) -> str | None:
    """The likest of the words, with its section or without; by the whole of what was given, or by
    its last part."""
    from difflib import SequenceMatcher

    last = word.rpartition("_")[2]
    given = [word, last] if len(last) > _SHORT else [word]

    def likeness(known: str) -> float:
        names = {known, known.rpartition("__")[2]}
        return max(SequenceMatcher(None, a, b).ratio() for a in given for b in names)

    best = max(words, key=likeness)
    return best if likeness(best) >= _ALIKE else None
