"""Which files a run sends: what the user named, and what lies in the directories and globs.

A file that was named is sent or is a problem. One that was found is sent unless git ignores it or
it can not be sent; then it is skipped, and the reason is kept. What may hold secrets is never sent
because it happened to lie there, nor is what begins with a dot: that is the configuration of tools,
and no part of what they work on. A pattern names what begins with a dot as the shell does: `.*`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from tasks.edits.disk import words
from tasks.edits.paths import PathRefused, relative_to_root, shown
from tasks.edits.source import SourceError
from tasks.runs.ignore import Ignores

_SECRETS = (
    *(".env", ".env.*", ".netrc", ".pypirc", ".npmrc", "credentials", "credentials.json"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*"),
)
_HARMLESS = (".env.example", ".env.sample", ".env.template", "*.pub")


class Skipped(msgspec.Struct, frozen=True):
    path: str
    reason: str


class Selection(msgspec.Struct, frozen=True):
    """Paths relative to the root. `named` as the user wrote them; `found` in a fixed order."""

    named: tuple[str, ...]
    found: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def select(given: Sequence[str], root: Path) -> Selection:
    """Raises SourceError with every name that leads to nothing."""
    looking = _Looking(root)
    for name in given:
        looking.at(name)
    if looking.problems:
        raise SourceError(looking.problems)
    found = tuple(path for path in looking.found if path not in looking.named)
    return Selection(tuple(looking.named), found, tuple(looking.skipped))


class _Looking:
    def __init__(self, root: Path) -> None:
        self.named: dict[str, None] = {}
        self.found: dict[str, None] = {}
        self.skipped: list[Skipped] = []
        self.problems: list[str] = []
        self._root = root
        self._ignores = Ignores.around(root)

    def at(self, name: str) -> None:
        path = Path(os.path.abspath(self._root / name))  # noqa: PTH100
        if not name:
            # An unset variable of a script must not become the whole directory.
            self.problems.append("an empty name is no file; . is this directory")
        elif os.path.isdir(path):  # noqa: PTH112 - what can not be looked at is for the reading
            self._directory(name, self._real(path))
        elif not os.path.lexists(path) and glob.has_magic(name):
            self._glob(name)
        else:
            # A double is for the reading to tell, which knows links, too.
            self.named[name] = None

    def _directory(self, name: str, path: Path) -> None:
        before = len(self.found) + len(self.skipped)
        if self._ignores.ignores(path, directory=True):
            self.problems.append(f"{shown(name)}: git ignores it; name its files to send them")
            return
        for file in self._walk(path):
            self._take(file)
        if len(self.found) + len(self.skipped) == before:
            self.problems.append(f"{shown(name)}: there is no file in it that git does not ignore")

    def _glob(self, pattern: str) -> None:
        # pathlib takes no pattern that is absolute or begins with `..`.
        matches = sorted(glob.glob(pattern, root_dir=self._root, recursive=True))  # noqa: PTH207
        if not matches:
            self.problems.append(f"{shown(pattern)}: no file matches")
        for match in matches:
            path = self._root / match
            is_link = os.path.islink(path)  # noqa: PTH114 - never raises
            if not is_link:
                path = self._real(path)
            ignored = self._ignores.ignores(path, directory=os.path.isdir(path))  # noqa: PTH112
            if not ignored and not is_link and os.path.isfile(path):  # noqa: PTH113
                self._take(path)

    def _real(self, path: Path) -> Path:
        """Where links lead that stay inside the root; the reading refuses those that do not."""
        real, real_root = Path(os.path.realpath(path)), Path(os.path.realpath(self._root))
        return self._root / real.relative_to(real_root) if real.is_relative_to(real_root) else path

    def _walk(self, directory: Path) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError as error:
            self._skip(directory, f"cannot be listed: {words(error)}")
            return
        for entry in entries:
            path = Path(entry.path)
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or self._ignores.ignores(path, directory=is_directory):
                continue
            if entry.name.startswith(".") and (is_directory or not _may_hold_secrets(entry.name)):
                self._skip(path, "begins with a dot; name it to send it")
            elif not is_directory:
                # A link is another name of what is found, or refused, where it leads.
                if entry.is_file(follow_symlinks=False):
                    yield path
            elif os.path.lexists(path / ".git"):
                self._skip(path, "is a repository of its own; name it to send it")
            else:
                yield from self._walk(path)

    def _take(self, path: Path) -> None:
        if _may_hold_secrets(path.name):
            self._skip(path, "may hold secrets; name it to send it")
            return
        try:
            self.found[relative_to_root(self._root, path)] = None
        except PathRefused as problem:
            self.problems.append(f"{shown(str(path))}: {problem}")

    def _skip(self, path: Path, reason: str) -> None:
        self.skipped.append(Skipped(os.path.relpath(path, self._root), reason))


def _may_hold_secrets(name: str) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return False
    return any(fnmatchcase(name.lower(), pattern) for pattern in _SECRETS)
