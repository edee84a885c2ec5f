"""Is a log whole? Pure: entries in, what is wrong with which of them out.

Every entry carries a checksum of itself, chained over its attempt, so what was changed, lost or
moved is named by its id, in superseded attempts as well. The seal carries length and digest of
the clean text, which are reckoned again from the entries. All this finds accidents and faults; it
does not stop a forger, who could write the sums anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby

import msgspec

from worker.log import entries
from worker.log.cursor import Cursor, CursorError
from worker.log.stored import Stored
from worker.log.view import spans_of


class Fault(StrEnum):
    CHANGED = "changed"
    MISSING = "missing"
    REPEATED = "repeated"
    REORDERED = "reordered"


class Finding(msgspec.Struct, frozen=True):
    """`clean`: it touches the one answer; False: only an attempt that was superseded."""

    id: str
    fault: Fault
    says: str
    clean: bool = True


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. A log without a seal is of a job that has not ended."""

    entries: int
    attempts: int
    length: int
    digest: str
    outcome: str | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings


class _Entry(msgspec.Struct, frozen=True):
    at: Cursor
    stored: Stored
    #: None when the document can not be read.
    entry: entries.Entry | None


def verify(log: Sequence[Stored], *, ended: bool = False, attempts: int = 0) -> Verdict:
    """Check a whole log. `ended`, `attempts`: what the job's record says of it."""
    read = [_Entry(each.at, each, _decoded(each.payload)) for each in log]
    runs = {number: list(run) for number, run in groupby(read, lambda each: each.at.attempt)}
    last = max(max(runs, default=0), attempts)
    text, spans = _clean(runs)
    found = [finding for number in range(1, last + 1) for finding in _run(number, runs)]
    found += _bases(read)
    digest = hashlib.sha256(text.encode()).hexdigest()
    seal = next((each for each in read if isinstance(each.entry, entries.End)), None)
    found += _sealed(read, seal, len(text), digest, found) if seal else _unsealed(read, ended)
    return Verdict(
        entries=len(log),
        attempts=len(runs),
        length=len(text),
        digest=digest,
        outcome=seal.entry.outcome if seal and isinstance(seal.entry, entries.End) else None,
        findings=tuple(_marked(finding, spans) for finding in found),
    )


def _decoded(payload: bytes) -> entries.Entry | None:
    """None for what no writer can have written."""
    try:
        entry = entries.decode(payload)
        if isinstance(entry, entries.Attempt):
            Cursor.parse(entry.base)
            Cursor.parse(entry.after)
    except (msgspec.DecodeError, CursorError):
        return None
    return entry


def _clean(runs: dict[int, list[_Entry]]) -> tuple[str, list[tuple[Cursor, Cursor]]]:
    """The text of the one answer, and the stretches of the log that it is made of."""
    firsts = {
        number: run[0].entry
        for number, run in runs.items()
        if isinstance(run[0].entry, entries.Attempt)
    }
    spans = spans_of(firsts, max(runs, default=0))
    kept = [
        each.entry.text
        for low, high in spans
        for each in runs[low.attempt]
        if each.at <= high and isinstance(each.entry, entries.Text)
    ]
    return "".join(kept), spans


def _run(number: int, runs: dict[int, list[_Entry]]) -> Iterator[Finding]:
    """What is wrong inside one attempt."""
    run = runs.get(number)
    if run is None:
        yield _missing(Cursor(number, 0), Cursor(number, 0), "the whole attempt")
        return
    before: _Entry | None = None
    length = 0
    for each in run:
        expected = Cursor(number, before.at.seq + 1 if before else 0)
        if each.at > expected:
            yield _missing(expected, Cursor(number, each.at.seq - 1), "")
        elif (finding := _link(each, before, run)) is not None:
            yield finding
        elif before is not None and each.entry is not None and each.entry.offset != length:
            says = f"it stands at character {each.entry.offset}, behind {length} of them"
            yield Finding(str(each.at), Fault.CHANGED, says)
        if each.entry is not None:
            length = entries.end_offset(each.entry)
        before = each


def _link(each: _Entry, before: _Entry | None, run: Sequence[_Entry]) -> Finding | None:
    """What is wrong with an entry that stands where one is due; None: nothing."""
    at, (_, payload, check) = str(each.at), each.stored
    if before is None:
        if check == entries.check_of_first(payload) and isinstance(each.entry, entries.Attempt):
            return None
        return Finding(at, Fault.CHANGED, "it is not what the claim has written")
    if before.stored.check is not None and check == entries.check_behind(
        payload, before.stored.check
    ):
        return None
    for other in run:
        if other.at < each.at and (other.stored.payload, other.stored.check) == (payload, check):
            return Finding(at, Fault.REPEATED, f"it is {other.at} once more")
    for other in run:
        if other.stored.check is None or other.at == each.at:
            continue
        if check == entries.check_behind(payload, other.stored.check):
            return Finding(at, Fault.REORDERED, f"it belongs behind the entry that is {other.at}")
    return Finding(at, Fault.CHANGED, "it is not what its writer has written")


def _missing(first: Cursor, last: Cursor, what: str) -> Finding:
    upto = "" if first == last else f" up to {last}"
    return Finding(str(first), Fault.MISSING, f"{what or 'the log'} lacks it{upto}".strip())


def _bases(read: Sequence[_Entry]) -> Iterator[Finding]:
    """What stood before an attempt must be there, and what it goes on from end where it says."""
    ends = {each.at: entries.end_offset(each.entry) for each in read if each.entry is not None}
    for each in read:
        if not isinstance(each.entry, entries.Attempt):
            continue
        base, after = Cursor.parse(each.entry.base), Cursor.parse(each.entry.after)
        seqs = [other.at.seq for other in read if other.at.attempt == after.attempt]
        if seqs and max(seqs) < after.seq:
            first = Cursor(after.attempt, max(seqs) + 1)
            yield _missing(first, after, f"{each.at} was written behind {after}, and the log")
        if base in ends and ends[base] != each.entry.offset:
            says = f"it keeps {each.entry.offset} characters, and {base} ends at {ends[base]}"
            yield Finding(str(each.at), Fault.CHANGED, says)


def _sealed(
    read: Sequence[_Entry], seal: _Entry, length: int, digest: str, found: Sequence[Finding]
) -> Iterator[Finding]:
    end = seal.entry
    assert isinstance(end, entries.End)
    for each in read:
        if each.at > seal.at:
            yield Finding(str(each.at), Fault.REORDERED, "it stands behind the seal")
    if (end.offset, end.digest) != (length, digest) and not found:
        says = f"it seals {end.offset} characters with another digest than the {length} there are"
        yield Finding(str(seal.at), Fault.CHANGED, says)


def _unsealed(read: Sequence[_Entry], ended: bool) -> Iterator[Finding]:
    if ended and read:
        due = Cursor(read[-1].at.attempt, read[-1].at.seq + 1)
        yield Finding(str(due), Fault.MISSING, "the job ended, and its log has no seal")


def _marked(finding: Finding, spans: Sequence[tuple[Cursor, Cursor]]) -> Finding:
    at = Cursor.parse(finding.id)
    touches = not spans or at > spans[-1][1] or any(low <= at <= high for low, high in spans)
    return msgspec.structs.replace(finding, clean=touches)
