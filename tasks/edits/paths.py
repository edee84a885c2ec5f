"""Which file a path names, and that it stays inside the root.

Owns the rule: a path is relative, has no `..`, and leads, after every symbolic link is followed,
to something below the root. Whatever reads or writes a file on behalf of an answer asks `locate`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

from settings.errors import LongstreamError

#: Longest piece of a path shown in a message; an answer may name anything.
_SHOWN_CHARACTERS = 200


class PathRefused(LongstreamError):
    """The path does not name a file inside the root. The message does not repeat the path."""


def shown(path: str) -> str:
    """The path on one line, safe for a terminal: as it is, or as a JSON string."""
    text = path if path.isprintable() and path else json.dumps(path)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def lexical_problem(path: str) -> str | None:
    """Why the path cannot be used whatever is on the disk, or None."""
    if not path or "\0" in path:
        return "is not a path"
    if not _is_text(path):
        return "has a name that is not UTF-8; rename it"
    pure = PurePosixPath(path)
    if pure.is_absolute():
        return "is an absolute path"
    if ".." in pure.parts or not pure.parts:
        return "does not stay inside the root"
    return None


def locate(root: Path, path: str) -> Path:
    """Where `path` really lies: every link followed, and proven to be below `root`."""
    problem = lexical_problem(path)
    if problem is not None:
        raise PathRefused(problem)
    real_root = Path(os.path.realpath(root))
    real = Path(os.path.realpath(real_root / path))
    if real == real_root or not real.is_relative_to(real_root):
        raise PathRefused("leads outside the root through a symbolic link")
    return real


def relative_to_root(root: Path, given: str | os.PathLike[str]) -> str:
    """The path a user gave, relative to `root`, with `/`; links in it keep their names.

    The root itself is `.`, which names no file.
    """
    path = os.fspath(given)
    real_root = os.path.realpath(root)
    for base in (os.path.abspath(root), real_root):  # noqa: PTH100 - must not touch the disk
        full = Path(base, path)
        if ".." in full.parts:
            # `link/..` is not what it looks like, so a path with `..` is taken by what it leads to.
            full = Path(os.path.realpath(full))
        if full.is_relative_to(base):
            return full.relative_to(base).as_posix()
    raise PathRefused(f"is outside {shown(real_root)}")


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
