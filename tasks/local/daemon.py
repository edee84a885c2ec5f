"""A background process of the embedded stack, known by a lock it holds for as long as it lives.

The process inherits an open file on which a lock is held. When it dies, however it dies, the
kernel drops the lock; so "is it alive" has a true answer without pid files that go stale, and no
orphan can block the next start. It writes its own id, so a starter that is killed half-way leaves
a process that the next one finds.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: How often a stop looks whether the process is gone, in seconds.
_POLL_S = 0.02
#: How long a process that holds its lock may take to write its id, and how long others may look
#: at a lock that is to be taken.
_MOMENT_S = 5.0
#: Writes its id, then becomes the command.
_NAMED = 'printf %s "$$" > "$0" && exec "$@"'


class Daemon:
    """`name` is the file name in the state directory: `<name>.lock` and `<name>.log`."""

    def __init__(self, state: Path, name: str) -> None:
        self.name = name
        self.log = state / f"{name}.log"
        self._lock = state / f"{name}.lock"

    def pid(self) -> int | None:
        """The process's id, or None when it does not run."""
        try:
            with self._lock.open("r") as file:
                # Shared, so that two who look at once do not take each other for the process.
                deadline = time.monotonic() + _MOMENT_S
                while not _locked(file.fileno(), fcntl.LOCK_SH):
                    file.seek(0)
                    if written := file.read():
                        return int(written)
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"{self._lock} is held by a process without a name")
                    time.sleep(_POLL_S)
        except FileNotFoundError:
            pass
        return None

    def launch(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        """Start it in its own session, its output in the log. It must not be running."""
        import subprocess

        with self._lock.open("a") as file, self.log.open("ab") as log:
            deadline = time.monotonic() + _MOMENT_S
            while not _locked(file.fileno(), fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} is running already")
                time.sleep(_POLL_S)
            file.truncate(0)
            process = subprocess.Popen(
                ["/bin/sh", "-c", _NAMED, str(self._lock), *map(str, command)],
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[file.fileno()],
            )
        # It outlives this process on purpose; without this Python warns of a child not waited for.
        process.returncode = 0

    def stop(self, within_s: float) -> bool:
        """Ask it to end; kill it when it has not `within_s` seconds later. False: not running."""
        pid = self.pid()
        if pid is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        if not self.gone(within_s) and (pid := self.pid()) is not None:
            with suppress(ProcessLookupError):
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

    def last_words(self, lines: int = 1) -> str:
        """The end of its log, in one line."""
        with suppress(OSError):
            written = self.log.read_text("utf-8", "replace").splitlines()
            return " ".join(line.strip() for line in written[-lines:])
        return ""


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock on `path`: one process at a time starts or stops the stack. `waiting` is called
    once when another one does so now."""
    with path.open("w") as file:
        if not _locked(file.fileno(), fcntl.LOCK_EX):
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _locked(descriptor: int, kind: int) -> bool:
    """Take the lock; False when another process holds it."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _reap(pid: int) -> None:
    """Collect the process if it was started from here."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
