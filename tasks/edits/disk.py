"""Reading a file once, and replacing it so that nobody ever sees half of it.

`replace_file` writes a new file beside the old one, syncs it and renames it over the old one: a
crash or a full disk leaves the old content, and of the new file at most what `leftovers` removes
later. It replaces what it was shown, or raises `ChangedMeanwhile`; every other failure is the
`OSError` it was.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from settings.errors import LongstreamError
from tasks.edits.leftovers import temporary_file


class ChangedMeanwhile(LongstreamError):
    """The file is not the one that was looked at any more."""


class NotAFile(LongstreamError):
    """A device, a socket or a pipe."""


def read_regular(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Up to `limit` bytes and the file's status. Never blocks on a pipe, never follows a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, os.strerror(21), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile("is not a regular file")
        return file.read(limit), status


def replace_file(target: Path, data: bytes, like: os.stat_result | None) -> None:
    """Put `data` at `target`. `like`: the status of the file it replaces; None creates one."""
    with replacing(target, like) as descriptor:
        write_all(descriptor, data)


@contextlib.contextmanager
def replacing(target: Path, like: os.stat_result | None) -> Iterator[int]:
    """As `replace_file`, with what is written to the descriptor meanwhile."""
    with temporary_file(target.parent) as (descriptor, temporary):
        yield descriptor
        if like is not None:
            _take_owner_and_mode(descriptor, like)
        os.fsync(descriptor)
        if like is None and os.path.lexists(target):
            raise ChangedMeanwhile("appeared while it was being written")
        if like is not None and not _is_same(target, like):
            raise ChangedMeanwhile("changed while it was being replaced")
        temporary.replace(target)
    _sync_directory(target.parent)


def create_or_replace(target: Path, data: bytes) -> None:
    """Put `data` at `target` whatever is there; a link stays one, and what it names changes."""
    real = Path(os.path.realpath(target))
    try:
        like = real.stat()
    except FileNotFoundError:
        replace_file(real, data, like=None)
        return
    if not stat.S_ISREG(like.st_mode):
        raise NotAFile(f"{target} is not a regular file")
    replace_file(real, data, like=like)


def is_read_only(path: Path, status: os.stat_result) -> bool:
    """True when the user's permissions say hands off, also when root could write anyway."""
    return not status.st_mode & 0o222 or not os.access(path, os.W_OK)


def why_unwritable(target: Path, *, tree: bool = False) -> str:
    """Why no file can be put at `target`, or below it for a `tree`; empty: nothing speaks against
    it. Tells it beforehand, so a file system that fills up is still met later."""
    real = Path(os.path.realpath(target))
    if tree:
        while not os.path.lexists(real):
            real = real.parent
    elif real.exists():
        if not real.is_file():
            return "is not a regular file"
        real = real.parent
    else:
        real = real.parent
        if not real.exists():
            return f"there is no directory {real}"
    if not real.is_dir():
        return f"{real} is not a directory"
    if not os.access(real, os.W_OK | os.X_OK):
        return f"the directory {real} can not be written in"
    return ""


def words(error: OSError) -> str:
    """The system's reason, without the path it repeats."""
    return (error.strerror or "unknown reason").lower()


def write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _take_owner_and_mode(descriptor: int, like: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    # After the owner: changing that clears the set-id bits.
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


def _is_same(path: Path, seen: os.stat_result) -> bool:
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


def _sync_directory(directory: Path) -> None:
    # The new content is in place already: not being able to sync the name is no failure.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
