"""Writes a checked result, file by file: over the files that were sent, or beside them.

A file is replaced whole or not at all, keeps its mode, and is only replaced while it is exactly
what was sent. Applying twice is harmless: a file that already has its new content is left alone.
Every file that is not written has a `Refused` with one line that says why.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from tasks.edits.checks import Change, Result
from tasks.edits.disk import (
    ChangedMeanwhile,
    NotAFile,
    is_read_only,
    read_regular,
    replace_file,
    words,
)
from tasks.edits.paths import PathRefused, locate


class Applied(msgspec.Struct, frozen=True, tag_field="state", tag="applied"):
    """The file has its new content. `written` is False when it had it before."""

    path: str
    written: bool = True


class Refused(msgspec.Struct, frozen=True, tag_field="state", tag="refused"):
    """The file was left as it is."""

    path: str
    reason: str


def apply(result: Result, root: Path, force: bool = False) -> list[Applied | Refused]:
    """Replace the changed files below `root`. Unchanged files are not mentioned."""
    return _each(result, root, force, _replace)


def write_out(result: Result, out_dir: Path, force: bool = False) -> list[Applied | Refused]:
    """Write the changed files below `out_dir`, which is made. Overwrites nothing."""
    return _each(result, out_dir, force, _create)


class _Refusal(Exception):
    """Why one file is left alone."""


def _each(
    result: Result, root: Path, force: bool, write: Callable[[Change, Path], bool]
) -> list[Applied | Refused]:
    outcomes: list[Applied | Refused] = []
    for change in result.changes:
        if change.verdict.kind != "unchanged":
            outcomes.append(_one(change, root, force, write))
    refused = (Refused(verdict.path, verdict.reason) for verdict in result.refused)
    return [*outcomes, *refused]


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


def _replace(change: Change, target: Path) -> bool:
    source, after = change.source, change.after
    try:
        current, status = read_regular(target, max(source.size, len(after)) + 1)
    except FileNotFoundError:
        raise _Refusal("is not there any more") from None
    if current == after:
        return False
    if sha256(current).hexdigest() != source.sha256:
        raise _Refusal("changed since it was sent; it keeps its newer content")
    if is_read_only(target, status):
        raise _Refusal("is read-only; allow writing with chmod u+w")
    replace_file(target, after, like=status)
    return True


def _create(change: Change, target: Path) -> bool:
    after = change.after
    try:
        current, _ = read_regular(target, len(after) + 1)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, after, like=None)
        return True
    if current != after:
        raise _Refusal("is there already with other content; choose another directory")
    return False
