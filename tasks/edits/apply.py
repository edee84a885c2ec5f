"""Writes a checked result, file by file: over the files that were sent, or beside them.

A file is replaced whole or not at all, keeps its mode, and is only replaced while it is exactly
what was sent. Applying twice is harmless: a file that already has its new content is left alone.
Every file that is not written has a `Refused` with one line that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from tasks.edits.checks import Change
from tasks.edits.disk import (
    ChangedMeanwhile,
    NotAFile,
    is_read_only,
    read_regular,
    replace_file,
    words,
)
from tasks.edits.paths import PathRefused, locate

#: What the run wrote before may be longer than what was sent and what is to be written; a file that
#: is longer than this many times both is read no further, and is nobody's.
_READ = 4


class Ours(Protocol):
    """What whoever applies has written before, and may write over."""

    def sums(self, path: str) -> Set[str]:
        """The SHA-256 of every content it has put at `path`, or was about to."""

    def intend(self, path: str, sha256: str) -> None:
        """`path` is about to get this content; kept before the file is touched."""


class Nothing:
    """Nobody has written anything, and nobody asks."""

    def sums(self, path: str) -> Set[str]:
        return frozenset()

    def intend(self, path: str, sha256: str) -> None:
        return


NOTHING = Nothing()


class Applied(msgspec.Struct, frozen=True, tag_field="state", tag="applied"):
    """The file has its new content. `written` is False when it had it before."""

    path: str
    written: bool = True


class Refused(msgspec.Struct, frozen=True, tag_field="state", tag="refused"):
    """The file was left as it is."""

    path: str
    reason: str


def apply_one(
    change: Change, root: Path, *, force: bool = False, ours: Ours = NOTHING
) -> Applied | Refused:
    """Replace one file, whatever its verdict but a doubtful one without `force`."""
    return _one(change, root, force, partial(_replace, ours=ours))


def write_one_out(
    change: Change, out_dir: Path, *, force: bool = False, ours: Ours = NOTHING
) -> Applied | Refused:
    """Write one file below `out_dir`. Overwrites nothing but what is ours."""
    return _one(change, out_dir, force, partial(_create, ours=ours))


class _Refusal(Exception):
    """Why one file is left alone."""


def _one(
    change: Change, root: Path, force: bool, write: Callable[[Change, Path], bool]
) -> Applied | Refused:
    if change.verdict.kind == "doubtful" and not force:
        return Refused(change.path, f"{change.verdict.reason}; --force writes it all the same")
    try:
        return Applied(change.path, write(change, locate(root, change.path)))
    except (_Refusal, PathRefused, NotAFile, ChangedMeanwhile) as problem:
        return Refused(change.path, str(problem))
    except OSError as error:
        return Refused(change.path, f"cannot be written: {words(error)}")


def _replace(change: Change, target: Path, ours: Ours) -> bool:
    source, after = change.source, change.after
    try:
        current, status = read_regular(target, _READ * max(source.size, len(after)) + 1)
    except FileNotFoundError:
        raise _Refusal("is not there any more") from None
    if current == after:
        return False
    if _sum(current) not in {source.sha256, *ours.sums(change.path)}:
        raise _Refusal("changed since it was sent; it keeps its newer content")
    if is_read_only(target, status):
        raise _Refusal("is read-only; allow writing with chmod u+w")
    ours.intend(change.path, _sum(after))
    replace_file(target, after, like=status)
    return True


def _create(change: Change, target: Path, ours: Ours) -> bool:
    after = change.after
    try:
        current, status = read_regular(target, _READ * max(change.source.size, len(after)) + 1)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        ours.intend(change.path, _sum(after))
        replace_file(target, after, like=None)
        return True
    if current == after:
        return False
    if _sum(current) not in ours.sums(change.path):
        raise _Refusal("is there already with other content; choose another directory")
    ours.intend(change.path, _sum(after))
    replace_file(target, after, like=status)
    return True


def _sum(data: bytes) -> str:
    return sha256(data).hexdigest()
