"""A copy of the tree in which the user's command says whether changed files are any good.

The copy holds what git would not ignore, as it is on the disk now, so nothing the command does can
reach the real files. It is made beside no file of the user and removed at the end; that of a
process which was killed, when the next is made.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from settings.errors import LongstreamError
from tasks.edits.disk import words
from tasks.edits.leftovers import TemporaryDirectory
from tasks.runs.ignore import Ignores

#: How much of the command's output is kept, from its end.
_OUTPUT_BYTES = 64_000


class ScratchError(LongstreamError):
    """The copy can not be made, or the command not be started."""


class Checked(msgspec.Struct, frozen=True):
    """`why` in one line, empty when the command succeeded."""

    why: str
    output: str = ""

    @property
    def passed(self) -> bool:
        return not self.why


class Scratch:
    """Use as a context manager. `root` is where the paths of changes begin."""

    def __init__(self, root: Path, command: str, within_s: float) -> None:
        self._command = command
        self._within_s = within_s
        ignores = Ignores.around(root)
        self._place = TemporaryDirectory("check")
        self.root = self._place.path / root.relative_to(ignores.top)
        try:
            for path in _kept(ignores, ignores.top):
                _copy(path, self._place.path / path.relative_to(ignores.top))
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.close()
            raise ScratchError(f"no copy to check in: {error.filename}: {words(error)}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._place.close()

    def put(self, path: str, data: bytes) -> None:
        """Give a file this content."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode if target.is_file() else None
        # A link in the copy may lead out of it.
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        if mode is not None:
            target.chmod(mode)

    def check(self) -> Checked:
        """Run the command, and end everything it started."""
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", self._command],
                    cwd=self.root,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ScratchError(f"the check can not be started: {words(error)}") from error
            why = self._ended(process)
            return Checked(why, _end_of(output.fileno()))

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        try:
            code = process.wait(self._within_s)
        except subprocess.TimeoutExpired:
            return f"the check took longer than {self._within_s:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code < 0:
            return f"the check was ended by signal {-code}"
        return f"the check failed with exit code {code}" if code else ""


def _kept(ignores: Ignores, directory: Path) -> Iterator[Path]:
    with os.scandir(directory) as found:
        entries = list(found)
    for entry in entries:
        path = Path(entry.path)
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name == ".git" or ignores.ignores(path, directory=is_directory):
            continue
        if is_directory:
            yield from _kept(ignores, path)
        elif entry.is_file() or entry.is_symlink():
            yield path


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # A file that vanishes meanwhile was not there when the command ran.
    with suppress(FileNotFoundError):
        shutil.copy2(path, target, follow_symlinks=False)


def _end_of(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, _OUTPUT_BYTES, max(0, size - _OUTPUT_BYTES))
    return data.decode("utf-8", "replace").strip()
