"""Temporary files and directories, and the removal of those whose process was killed.

Each has a name that proves itself, its last part being a digest of the rest, and is locked by its
process for as long as that uses it. The lock ends with the process, however that ends. So `sweep`
removes what has such a name and can be locked: never a file of the user, never one of a command
that still runs, whichever run that belongs to. Where a file system has no locks nothing is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

_HIDDEN = ".longstream-"
_NAME = re.compile(r"(\.?longstream-(?:[a-z]+-)?[0-9a-f]{16})-([0-9a-f]{12})")
#: As it is for reading and writing: NFS gives an exclusive lock to no one who can only read.
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def temporary_file(directory: Path) -> Iterator[tuple[int, Path]]:
    """A new file, open for writing; removed at the end if it still has its name."""
    while True:
        path = directory / _new_name(_HIDDEN)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            # Its name means nothing to anybody.
            error.filename = str(directory)
            raise
        try:
            if _is_locked(descriptor, path):
                yield descriptor, path
                return
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)


class TemporaryDirectory:
    """A new directory of this process alone, among the system's temporary ones. `kind` is a part of
    its name; what a killed process left of the same kind is removed first."""

    def __init__(self, kind: str) -> None:
        parent, prefix = Path(tempfile.gettempdir()), f"longstream-{kind}-"
        sweep(parent, prefix)
        while True:
            self.path = parent / _new_name(prefix)
            self.path.mkdir(mode=0o700)
            with suppress(FileNotFoundError):
                self._descriptor = os.open(self.path, _DIRECTORY)
                if _is_locked(self._descriptor, self.path):
                    return
                os.close(self._descriptor)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it; once is enough, and twice does no harm."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def sweep(directory: Path, prefix: str = _HIDDEN) -> list[tuple[Path, OSError]]:
    """Remove what killed processes left in `directory`; what can not be removed, and why."""
    stuck: list[tuple[Path, OSError]] = []
    try:
        names = [name for name in os.listdir(directory) if name.startswith(prefix)]  # noqa: PTH208
    except OSError:
        # What can not be listed was never written to either.
        return []
    for path in (directory / name for name in names if _proves_itself(name)):
        try:
            _remove_if_left(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            stuck.append((path, error))
    return stuck


def _remove_if_left(path: Path) -> None:
    status, hidden = path.lstat(), path.name.startswith(".")
    if not (stat.S_ISREG if hidden else stat.S_ISDIR)(status.st_mode):
        return
    if not hidden and status.st_uid != os.geteuid():
        # Where everybody makes directories, the others' are theirs.
        return
    descriptor = os.open(path, _FILE if hidden else _DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    else:
        path.unlink() if hidden else shutil.rmtree(path)
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int, path: Path) -> bool:
    """False when a sweep came between the making and this, and took it for a leftover."""
    # Where there are no locks, a sweep gets none either.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _new_name(prefix: str) -> str:
    name = prefix + secrets.token_hex(8)
    return f"{name}-{_proof(name)}"


def _proves_itself(name: str) -> bool:
    found = _NAME.fullmatch(name)
    return found is not None and found[2] == _proof(found[1])


def _proof(name: str) -> str:
    return blake2b(name.encode(), digest_size=6).hexdigest()
