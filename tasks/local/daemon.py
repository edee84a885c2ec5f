"""A background process of the embedded stack, known by a lock it holds for as long as it lives.

The process inherits an open file on which a lock is held. When it dies, however it dies, the
kernel drops the lock; so "is it alive" has a true answer without pid files that go stale, and no
orphan can block the next start.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: How often a stop looks whether the process is gone, in seconds.
_POLL_S = 0.02


class Daemon:
    """`name` is the file name in the state directory: `<name>.lock` and `<name>.log`."""

    def __init__(self, state: Path, name: str) -> None:
        self.name = name
        self.log = state / f"{name}.log"
        self._lock = state / f"{name}.lock"

    def pid(self) -> int | None:
        """The process's id, or None when it does not run."""
        try:
            with self._lock.open("r+") as file:
                if _locked(file.fileno()):
                    return None
                return int(file.read() or 0) or None
        except FileNotFoundError:
            return None

    def launch(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> int:
        """Start it in its own session, its output in the log. It must not be running."""
        with self._lock.open("w") as file, self.log.open("ab") as log:
            if not _locked(file.fileno()):
                raise RuntimeError(f"{self.name} is running already")
            process = subprocess.Popen(
                [str(part) for part in command],
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[file.fileno()],
            )
            file.write(str(process.pid))
        # It outlives this process on purpose; without this Python warns of a child not waited for.
        process.returncode = 0
        return process.pid

    def stop(self, within_s: float) -> bool:
        """Ask it to end; kill it when it has not `within_s` seconds later. False: not running."""
        pid = self.pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        if not self.gone(within_s) and (pid := self.pid()) is not None:
            os.kill(pid, signal.SIGKILL)
            self.gone(within_s)
        return True

    def gone(self, within_s: float) -> bool:
        """Wait until it has ended; False when it has not in that time."""
        deadline = time.monotonic() + within_s
        while (pid := self.pid()) is not None:
            _reap(pid)
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock on `path`: one process at a time starts or stops the stack."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _locked(descriptor: int) -> bool:
    """Take the lock; False when another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _reap(pid: int) -> None:
    """Collect the process if it was started from here."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
