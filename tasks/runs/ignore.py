"""What git would ignore below a directory.

Every .gitignore on the way has a say, then `info/exclude` of the repository, then the user's own
`core.excludesFile`; the first of them that says anything about a path decides, the deepest
.gitignore before the others, and in it the last pattern that fits. What lies in an ignored
directory is ignored, whatever is said of it further down. What git tracks it never ignores.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

_GITIGNORE = ".gitignore"
_NOTHING = GitIgnoreSpec.from_lines(())


class Ignores:
    """For paths below `top`, the root of the repository or whatever stands for it."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._specs: dict[PurePosixPath, GitIgnoreSpec] = {}
        self._ignored: dict[PurePosixPath, bool] = {PurePosixPath(): False}
        self._excluded = tuple(_spec(path) for path in _exclude_files(top))

    @classmethod
    def around(cls, place: Path) -> Ignores:
        """Those of the repository that `place` lies in; else of `place` alone."""
        return cls(repository_of(place) or place)

    @property
    def top(self) -> Path:
        return self._top

    def ignores(self, path: Path, *, directory: bool) -> bool:
        """`path` is absolute; what does not lie below the top is never ignored."""
        if not path.is_relative_to(self._top) or path == self._top:
            return False
        within = PurePosixPath(path.relative_to(self._top).as_posix())
        if self._ignores_directory(within.parent):
            ignored = True
        elif directory:
            ignored = self._ignores_directory(within)
        else:
            ignored = self._says(within, str(within))
        return ignored and str(within) not in self._tracked

    @cached_property
    def _tracked(self) -> set[str]:
        """The files that git tracks, and the directories they lie in."""
        in_repository = repository_of(self._top) == self._top
        listed = _git(self._top, "ls-files", "-z") if in_repository else None
        files = os.fsdecode(listed or b"").split("\0")[:-1]
        tracked = set(files)
        for name in files:
            while (name := name.rpartition("/")[0]) and name not in tracked:
                tracked.add(name)
        return tracked

    def _ignores_directory(self, within: PurePosixPath) -> bool:
        if within not in self._ignored:
            inside = self._ignores_directory(within.parent)
            self._ignored[within] = inside or self._says(within, f"{within}/")
        return self._ignored[within]

    def _says(self, within: PurePosixPath, name: str) -> bool:
        for directory, spec in self._deepest_first(within):
            start = 0 if directory == PurePosixPath() else len(str(directory)) + 1
            if (said := _said(spec, name[start:])) is not None:
                return said
        others = (_said(spec, name) for spec in self._excluded)
        return next((said for said in others if said is not None), False)

    def _deepest_first(
        self, within: PurePosixPath
    ) -> Iterator[tuple[PurePosixPath, GitIgnoreSpec]]:
        for directory in within.parents:
            if directory not in self._specs:
                path = self._top / directory / _GITIGNORE
                is_link = os.path.islink(path)  # noqa: PTH114 - never raises
                # Git follows no link here either.
                self._specs[directory] = _NOTHING if is_link else _spec(path)
            yield directory, self._specs[directory]


def _said(spec: GitIgnoreSpec, name: str) -> bool | None:
    """What the last pattern that fits says. One that fits a directory on the way was asked before,
    of that directory: `!src` says nothing of `src/build/`."""
    own = name[name.rstrip("/").rfind("/") + 1 :]
    for pattern in reversed(spec.patterns):
        named_anywhere = "/" not in str(pattern.pattern).strip().rstrip("/")
        fit = pattern.match_file(own if named_anywhere else name)
        if fit is None or pattern.include is None:
            continue
        slash = fit.match.end("ps_d") if "ps_d" in fit.match.groupdict() else -1
        if slash in {-1, len(fit.match.string)}:
            return bool(pattern.include)
    return None


def repository_of(place: Path) -> Path | None:
    """The root of the repository that a directory lies in."""
    places = (place, *place.parents)
    return next((each for each in places if os.path.lexists(each / ".git")), None)


def _exclude_files(top: Path) -> Iterator[Path]:
    """Those outside of the tree, the stronger first; git knows where they lie, if it is there."""
    in_repository = _git(top, "rev-parse", "--git-path", "info/exclude")
    yield top / (_line(in_repository) or ".git/info/exclude")
    of_the_user = _git(top, "config", "--type=path", "--get", "core.excludesFile")
    if of_the_user is None:
        # Whoever has no home has no such file either.
        place = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
        yield Path(place) / "git" / "ignore"
    elif name := _line(of_the_user):
        yield top / name


def _git(top: Path, *arguments: str) -> bytes | None:
    """What git prints; None when it has no answer, or is not installed."""
    command = ["git", "-C", str(top), *arguments]
    with suppress(OSError):
        done = subprocess.run(command, capture_output=True, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


def _line(printed: bytes | None) -> str:
    return os.fsdecode(printed or b"").removesuffix("\n")


def _spec(path: Path) -> GitIgnoreSpec:
    try:
        text = path.read_text("utf-8", "surrogateescape") if path.is_file() else ""
    except OSError:
        text = ""
    return GitIgnoreSpec.from_lines(text.splitlines())
