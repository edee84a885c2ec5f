"""What git would ignore below a directory: every .gitignore on the way, and .git/info/exclude.

The deepest file that says anything about a path decides, and in it the last pattern that fits. What
lies in an ignored directory is ignored, whatever is said of it further down. The user's own
`core.excludesFile` is not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

_GITIGNORE = ".gitignore"


class Ignores:
    """For paths below `top`, the root of the repository or whatever stands for it."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._specs: dict[PurePosixPath, GitIgnoreSpec] = {}
        self._ignored: dict[PurePosixPath, bool] = {PurePosixPath(): False}
        self._excluded = _spec(top / ".git" / "info" / "exclude")

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
            return True
        return self._ignores_directory(within) if directory else self._says(within, str(within))

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
        return bool(_said(self._excluded, name))

    def _deepest_first(
        self, within: PurePosixPath
    ) -> Iterator[tuple[PurePosixPath, GitIgnoreSpec]]:
        for directory in within.parents:
            if directory not in self._specs:
                self._specs[directory] = _spec(self._top / directory / _GITIGNORE)
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
    return next((each for each in (place, *place.parents) if (each / ".git").exists()), None)


def _spec(path: Path) -> GitIgnoreSpec:
    try:
        text = path.read_text("utf-8", "surrogateescape") if path.is_file() else ""
    except OSError:
        text = ""
    return GitIgnoreSpec.from_lines(text.splitlines())
