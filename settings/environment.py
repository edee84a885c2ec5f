"""The environment: which variables count, and which are a typing mistake.

An empty variable counts as unset, so a compose file can pass on what may not be there. Unknown
variables with our prefix are refused when they come close to one we know; others may belong to
whatever runs beside us.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from settings.catalogue import PREFIX, SETTINGS
from settings.problems import Problems

CONFIG = f"{PREFIX}CONFIG"
SIMULATOR_URL = f"{PREFIX}SIMULATOR_URL"

#: How alike two names are, prefix aside, when one is a mistake for the other. Container
#: platforms add variables such as LONGSTREAM_REDIS_PORT, which must not count.
_ALIKE = 0.8


def set_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that have a value."""
    return {name: value for name, value in environ.items() if value.strip()}


def refuse_misspelt(environ: Mapping[str, str], problems: Problems) -> None:
    """A problem for each variable that was meant for us and would be ignored."""
    known = [CONFIG, SIMULATOR_URL, *(setting.variable for setting in SETTINGS)]
    words = [name.removeprefix(PREFIX) for name in known]
    sections = tuple({f"{setting.path[0].upper()}__" for setting in SETTINGS})
    for name in environ:
        word = name.removeprefix(PREFIX)
        if not name.startswith(PREFIX) or word in words:
            continue
        close = get_close_matches(word, words, n=1, cutoff=_ALIKE)
        if close:
            problems.add(f"{name}: unknown variable, did you mean {PREFIX}{close[0]}?")
        elif word.startswith(sections):
            problems.add(f"{name}: unknown variable")
