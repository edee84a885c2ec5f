"""The state file: what a run is, then one line for everything that began or ended.

A line is in the file before the next prompt is sent, so a run that is killed loses nothing that
had ended. What it was in the middle of is noted, too: those jobs run on, and are taken up again
under the same ids. A line that was cut by a kill is dropped; any other line that is not ours means
that the file is not, and it is refused rather than overwritten.
"""

from __future__ import annotations

import fcntl
from collections import Counter
from pathlib import Path
from typing import IO

import msgspec

from settings.errors import LongstreamError
from tasks.bench.sample import Sample
from worker.log.entries import Tokens


class BookError(LongstreamError):
    """The state file can not be used."""


class Header(msgspec.Struct, frozen=True, tag="run"):
    """What samples of one file have in common. `run` is part of the ids of its jobs; `source` names
    the keys that can answer, and where they are."""

    run: str
    mode: str
    source: str
    model: str
    efforts: tuple[str, ...]
    factor: float
    version: int = 2

    def same(self, other: Header) -> bool:
        return msgspec.structs.replace(self, run=other.run) == other


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    phase: str
    n: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    sample: Sample


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    """Seconds that one call of the command worked on a phase."""

    phase: str
    seconds: float


class Billed(msgspec.Struct, frozen=True, tag="billed"):
    """What the provider wants to be paid for, for all that one call has sent in a phase; the first
    one, or it would say too little."""

    phase: str
    tokens: Tokens


Entry = Header | Begun | Ended | Spent | Billed
_decoder = msgspec.json.Decoder(Entry)


class Book:
    """Open in one process at a time. `close` it, or let the process end however it does."""

    def __init__(self, path: Path, header: Header, *, fresh: bool = False) -> None:
        self.path = path
        self.header = header
        self.samples: dict[tuple[str, int], Sample] = {}
        self.begun: set[tuple[str, int]] = set()
        self.seconds: dict[str, float] = {}
        #: Of the calls that came to the end of their phase.
        self._bills: dict[str, Tokens] = {}
        self._calls: Counter[str] = Counter()
        self._file = self._opened()
        try:
            if fresh:
                self._file.truncate(0)
            self._read()
        except BaseException:
            self._file.close()
            raise

    def begin(self, phase: str, n: int) -> None:
        self.begun.add((phase, n))
        self._write(Begun(phase, n))

    def end(self, sample: Sample) -> None:
        self.samples[sample.phase, sample.n] = sample
        self._write(Ended(sample))

    def spend(self, phase: str, seconds: float) -> None:
        spent = Spent(phase, round(seconds, 3))
        self._take(spent)
        self._write(spent)

    def untouched(self, phase: str) -> bool:
        return all(where != phase for where, _ in self.begun)

    def bill(self, phase: str, tokens: Tokens) -> None:
        billed = Billed(phase, tokens)
        self._take(billed)
        self._write(billed)

    def billed(self, phase: str) -> Tokens | None:
        """What the provider billed for a phase; None when no call ran all of it."""
        return self._bills.get(phase) if self._calls[phase] == 1 else None

    def of(self, phase: str) -> list[Sample]:
        return [sample for (where, _), sample in sorted(self.samples.items()) if where == phase]

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> IO[bytes]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise BookError(f"cannot write the state file {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise BookError(
                f"another bench runs with {self.path}: wait for it, or use another --state"
            ) from None
        return file

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        if data and not lines:
            raise self._strange(1)
        for number, line in enumerate(lines, 1):
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise self._strange(number) from None
            if isinstance(entry, Header) is not (number == 1):
                raise self._strange(number)
            self._take(entry)
        self._file.truncate(whole)
        if not lines:
            self._write(self.header)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry, Header):
            self._go_on_with(entry)
        elif isinstance(entry, Begun):
            self.begun.add((entry.phase, entry.n))
        elif isinstance(entry, Spent):
            self.seconds[entry.phase] = self.seconds.get(entry.phase, 0.0) + entry.seconds
            self._calls[entry.phase] += 1
        elif isinstance(entry, Billed):
            self._bills[entry.phase] = entry.tokens
        else:
            self.samples[entry.sample.phase, entry.sample.n] = entry.sample

    def _go_on_with(self, found: Header) -> None:
        if not self.header.same(found):
            differs = [
                f"{name} {theirs}, not {ours}"
                for name, theirs, ours in (
                    (name, getattr(found, name), getattr(self.header, name))
                    for name in ("mode", "source", "model", "efforts", "factor", "version")
                )
                if theirs != ours
            ]
            raise BookError(
                f"{self.path} belongs to another run ({'; '.join(differs)}): use another --state, "
                "or --fresh to begin anew in it"
            )
        self.header = found

    def _strange(self, line: int) -> BookError:
        return BookError(
            f"{self.path}, line {line}, is no line of a bench: name another --state, or move the "
            "file away"
        )

    def _write(self, entry: Entry) -> None:
        try:
            self._file.write(msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise BookError(f"cannot write the state file {self.path}: {error.strerror}") from error
