"""The output of a batch: one line for each line of the input, and how far an earlier run had come.

The output itself is the state. Each line's id names the line of the input and its digest, so a run
that was killed is taken up from what it had written; a last line that was cut off is removed. What
is no line of it stands beside it (`state`).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from settings.errors import LongstreamError
from tasks.batches.lines import Asked, Fault
from tasks.batches.state import BatchState, UnreadableState, load, state_file, store
from tasks.edits.disk import replacing, write_all
from tasks.edits.leftovers import sweep
from worker.outcomes import Outcome

_ID = re.compile(rb'^\{"id": ?"batch_req_([0-9a-f]+)_(\d+)_([0-9a-f]*)"')
#: A digest is 32 bits; this one stands for a line that is not done.
_NOT_DONE = -1
#: The codes of errors that are the end of a job.
_ENDED = frozenset(outcome.value for outcome in Outcome)


class Taken(LongstreamError):
    """The output exists and is no output of this batch."""


class Unwritable(LongstreamError):
    """The disk is full, or worse. What was cut off is removed by the next run."""


class Output:
    """Open for one run. Only whole lines are ever written."""

    def __init__(self, path: Path, *, retry: bool = False) -> None:
        """`retry`: lines with an error are not done. Raises Taken or OSError."""
        self._path = path
        self._done = array("q")
        self.written = 0
        self.failed = 0
        self._file = self._opened()
        try:
            self._state = self._begun()
            if retry and self.failed:
                self._forget_errors()
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
                "name another output, or remove this one (where it has an error: --retry-errors)"
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
        name = f"batch_req_{self._state.run}_{asked.line}_{asked.digest}"
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
        return self._state.job_id(asked.line, asked.digest)

    @property
    def lost_usd(self) -> Decimal:
        """What was paid beside what the lines say, as far as it is known."""
        return self._state.lost_usd

    def lose(self, usd: Decimal) -> None:
        """Keep that so much was paid beside what the lines say."""
        if usd:
            lost_usd = self._state.lost_usd + usd
            self._state = msgspec.structs.replace(self._state, lost_usd=lost_usd)
            store(state_file(self._path), self._state)

    def _opened(self) -> IO[bytes]:
        """The file, ours alone. Another run may have put a new one in its place meanwhile."""
        if self._path.exists() and not self._path.is_file():
            raise Taken(f"{self._path} is no regular file: name another output")
        while True:
            file = self._path.open("a+b", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    return file
            except BlockingIOError:
                file.close()
                raise Taken(f"another run is writing to {self._path}: wait for it") from None
            except BaseException:
                file.close()
                raise
            file.close()

    def _begun(self) -> BatchState:
        """What the batch is, once the output has whole lines only."""
        # What a run that was killed between writing and naming has left beside the output.
        sweep(self._path.parent)
        state = self._known()
        whole = self._read(state.run)
        if whole < self._path.stat().st_size:
            self._file.truncate(whole)
        return state

    def _known(self) -> BatchState:
        """That of the run that began the output, else a new one."""
        try:
            known = load(state_file(self._path))
        except UnreadableState as error:
            raise Taken(f"{error}: remove it and {self._path}") from None
        if known is not None:
            return known
        if self._path.stat().st_size:
            raise Taken(f"{self._path} exists and is no output of this command: name another one")
        state = BatchState.new()
        store(state_file(self._path), state)
        return state

    def _forget_errors(self) -> None:
        """Leave out the lines with an error. First it is noted that their jobs are used up, so
        that whoever is killed in between has at worst passed over a number."""
        again, lost = dict(self._state.again), self._state.lost_usd
        for record in self.records():
            if (error := record["error"]) is None:
                continue
            lost += Decimal(str(error.get("cost_usd", 0)))
            if error["code"] in _ENDED:
                again[error["line"]] = again.get(error["line"], 0) + 1
        self._state = msgspec.structs.replace(self._state, again=again, lost_usd=lost)
        store(state_file(self._path), self._state)
        with self._path.open("rb") as file, self._replaced() as descriptor:
            for line in file:
                if not _is_failed(line):
                    write_all(descriptor, line)
        self._file.close()
        self._file = self._opened()
        self._done, self.written, self.failed = array("q"), 0, 0
        self._read(self._state.run)

    def _replaced(self) -> AbstractContextManager[int]:
        # A link stays one.
        real = Path(os.path.realpath(self._path))
        return replacing(real, os.fstat(self._file.fileno()))

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
                self._note(int(found[2]), _number(found[3].decode()), failed=_is_failed(line))
        return at

    def _note(self, line: int, digest: int, *, failed: bool) -> None:
        if line >= len(self._done):
            self._done.extend([_NOT_DONE] * (line + 1 - len(self._done)))
        self._done[line] = digest
        self.written += 1
        self.failed += failed


def _is_failed(line: bytes) -> bool:
    return b'"error": null' not in line[-20:]


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


def failure(
    asked: Asked, code: str, message: str, cost_usd: Decimal | None = None
) -> dict[str, Any]:
    """The record of a request that got no answer; what it cost all the same."""
    error = _error(code, message, asked.line)
    if cost_usd:
        error["cost_usd"] = float(cost_usd)
    return {"response": None, "error": error}


def answer(job_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a request that was answered."""
    return {"response": {"status_code": 200, "request_id": job_id, "body": body}, "error": None}


def _error(code: str, message: str, line: int) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line}
