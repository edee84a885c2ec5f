"""Collects everything wrong with the configuration, and raises it as one error.

Secrets it was told of are cut out of every line, wherever they came from: an alias may be a
pasted key, and a pasted key may be anything.
"""

from __future__ import annotations

from settings.errors import SettingsError

#: Shorter texts are words of everyday use; cutting them out would ruin the message.
SECRET_CHARS = 8


class Problems:
    """The faults found so far, in the order they were found, each once."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._secrets: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __repr__(self) -> str:
        return f"<Problems: {len(self._lines)}>"

    def add(self, line: str) -> None:
        self._lines[line] = None

    def hide(self, secret: str) -> None:
        """Never show `secret`, nor a word of it, nor how `repr` would write it."""
        forms = {secret, repr(secret)[1:-1], *secret.split()}
        self._secrets.update(form for form in forms if len(form) >= SECRET_CHARS)

    def raise_any(self) -> None:
        """Raise SettingsError with all problems, if there is one."""
        if self._lines:
            raise SettingsError([self._clean(line) for line in self._lines])

    def _clean(self, line: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            line = line.replace(secret, "***")
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
