"""The output of a batch: one line for each line of the input, and how far an earlier run had come.

The output itself is the state. Each line's id names the line of the input and its digest, so a run
that was killed is taken up from what it had written; a last line that was cut off is removed. A
small file beside it, `OUTPUT.batch`, has the name of the run, which goes into the ids of its jobs.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from settings.errors import LongstreamError
from tasks.batches.lines import Asked, Fault
from tasks.edits.disk import replace_file
from tasks.edits.leftovers import sweep

_RUN_BYTES = 5
_ID = re.compile(rb'^\{"id": ?"batch_req_([0-9a-f]+)_(\d+)_([0-9a-f]*)"')
#: A digest is 32 bits; this one stands for a line that is not done.
_NOT_DONE = -1


class Taken(LongstreamError):
    """The output exists and is no output of this batch."""


class Unwritable(LongstreamError):
    """The disk is full, or worse. What was cut off is removed by the next run."""


class Output:
    """Open for one run. Only whole lines are ever written."""

    def __init__(self, path: Path) -> None:
        """Raises Taken or OSError."""
        self._path = path
        self._state = path.with_name(f"{path.name}.batch")
        self._done = array("q")
        self.written = 0
        self.failed = 0
        self._file = path.open("a+b", buffering=0)
        try:
            self.run = self._begun()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def has(self, line: int, digest: str) -> bool:
        """Whether this line of the input has its line here. Raises Taken when the input says
        something else there by now."""
        done = self._done[line] if line < len(self._done) else _NOT_DONE
        if done == _NOT_DONE:
            return False
        if done != _number(digest):
            raise Taken(
                f"line {line} of the requests has changed since {self._path} was begun: "
                "name another output, or remove this one"
            )
        return True

    def check_against(self, lines: Iterable[int]) -> None:
        """Raises Taken unless `lines`, the numbers of the input's, have all that are here."""
        here = len(self._done) - self._done.count(_NOT_DONE)
        known = sum(n < len(self._done) and self._done[n] != _NOT_DONE for n in lines)
        if known < here:
            raise Taken(
                f"{self._path} answers lines that the requests do not have ({here - known:,} of"
                f" {here:,}): name another output, or remove this one"
            )

    def records(self) -> Iterator[dict[str, Any]]:
        """What earlier runs have written."""
        with self._path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    def write(self, asked: Asked | Fault, record: Mapping[str, Any]) -> None:
        """One line for one line, in one write."""
        name = f"batch_req_{self.run}_{asked.line}_{asked.digest}"
        whole = {"id": name, "custom_id": asked.custom_id, **record}
        left = memoryview(_encoded(whole) + b"\n")
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise Unwritable(
                f"{self._path} can not be written: {error.strerror}; run the command again when "
                "that is mended, and it goes on where it was"
            ) from error
        self._note(asked.line, _number(asked.digest), failed=record["error"] is not None)

    def job_id(self, asked: Asked) -> str:
        """The same in every run of this batch, so that nothing is asked twice."""
        return f"{self.run}.{asked.line}.{asked.digest}"

    def _begun(self) -> str:
        """The run's name, once the output is ours alone and has whole lines only."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Taken(f"another run is writing to {self._path}: wait for it") from None
        # What a run that was killed between writing and naming has left beside the output.
        sweep(self._path.parent)
        run = self._named()
        whole = self._read(run)
        if whole < self._path.stat().st_size:
            self._file.truncate(whole)
        return run

    def _named(self) -> str:
        """The run's name: that of the run that began the output, else a new one."""
        try:
            known = json.loads(self._state.read_text("utf-8"))["run"]
        except FileNotFoundError:
            known = None
        except (ValueError, KeyError, TypeError):
            raise Taken(f"{self._state} can not be read: remove it and {self._path}") from None
        if known is not None:
            return str(known)
        if self._path.stat().st_size:
            raise Taken(f"{self._path} exists and is no output of this command: name another one")
        run = os.urandom(_RUN_BYTES).hex()
        replace_file(self._state, json.dumps({"run": run}).encode() + b"\n", like=None)
        return run

    def _read(self, run: str) -> int:
        """Learn what is done; where the last whole line ends."""
        at = 0
        with self._path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                at += len(line)
                found = _ID.match(line)
                if found is None or found[1].decode() != run:
                    raise Taken(f"{self._path} holds lines of another run: name another output")
                failed = b'"error": null' not in line[-20:]
                self._note(int(found[2]), _number(found[3].decode()), failed=failed)
        return at

    def _note(self, line: int, digest: int, *, failed: bool) -> None:
        if line >= len(self._done):
            self._done.extend([_NOT_DONE] * (line + 1 - len(self._done)))
        self._done[line] = digest
        self.written += 1
        self.failed += failed


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which only an escape can say.
        return json.dumps(value).encode()


def _number(digest: str) -> int:
    return int(digest or "0", 16)


def fault(fault: Fault) -> dict[str, Any]:
    """The record of a line that is no request."""
    return {"response": None, "error": _error(fault.code, fault.message, fault.line)}


def failure(asked: Asked, code: str, message: str) -> dict[str, Any]:
    """The record of a request that got no answer."""
    return {"response": None, "error": _error(code, message, asked.line)}


def answer(job_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request that was answered."""
    return {"response": {"status_code": 200, "request_id": job_id, "body": body}, "error": None}


def _error(code: str, message: str, line: int) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line}
