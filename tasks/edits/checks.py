"""What is proven about an answer before anything is written.

`check` gives one verdict for each file of the answer. Verdicts:

    changed     may be applied
    unchanged   the same text as before
    doubtful    applied only when forced: Python that does not compile, a file left empty
    refused     never applied: not sent, outside the root, not writable in the file's encoding

A verdict's `reason` holds no text of the file; `excerpt` may hold the one line at fault.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tasks.edits.answer import Answer
from tasks.edits.decoding import Undecodable, decode, is_python
from tasks.edits.paths import PathRefused, locate
from tasks.edits.source import SourceFile

Kind = Literal["changed", "unchanged", "doubtful", "refused"]


class Verdict(msgspec.Struct, frozen=True):
    """What became of one file of an answer."""

    path: str
    kind: Kind
    reason: str = ""
    excerpt: str = ""


class Change(msgspec.Struct, frozen=True):
    """A sent file and its new text, which the file's encoding can hold."""

    verdict: Verdict
    source: SourceFile
    text: str

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def before(self) -> bytes:
        return self.source.bytes_of(self.source.text)

    @property
    def after(self) -> bytes:
        return self.source.bytes_of(self.text)

    @property
    def diff(self) -> bytes:
        from tasks.edits.diff import unified_diff

        return unified_diff(self.path, self.before, self.after)


class Result(msgspec.Struct, frozen=True):
    """A checked answer: its changes in the order of the answer, and what was refused."""

    changes: tuple[Change, ...]
    refused: tuple[Verdict, ...] = ()


def check(files: Sequence[SourceFile], answer: Answer, root: Path) -> Result:
    """Judge every file of `answer` against the files that were sent from `root`."""
    sources = {file.path: file for file in files}
    changes: list[Change] = []
    refused: list[Verdict] = []
    for path, text in answer.files.items():
        source = sources.get(path)
        problem = _refusal(source, path, text, root)
        if source is None or problem is not None:
            refused.append(Verdict(path, "refused", problem or ""))
        else:
            changes.append(Change(_verdict(source, text), source, text))
    return Result(tuple(changes), tuple(refused))


def _refusal(source: SourceFile | None, path: str, text: str, root: Path) -> str | None:
    try:
        locate(root, path)
    except PathRefused as refused:
        return str(refused)
    if source is None:
        return "is not one of the files that were sent"
    return _encoding_problem(source, text)


def _encoding_problem(source: SourceFile, text: str) -> str | None:
    try:
        data = source.bytes_of(text)
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        code = ord(error.object[error.start])
        return f"line {line} has U+{code:04X}, which {source.encoding} cannot hold"
    try:
        readable = decode(data, source.path).text == text
    except Undecodable:
        readable = False
    return None if readable else f"would not read back as the {source.encoding} text it is"


def _verdict(source: SourceFile, text: str) -> Verdict:
    path = source.path
    if text == source.text:
        return Verdict(path, "unchanged", "the answer gives the file as it was")
    if not text.strip():
        return Verdict(path, "doubtful", "the answer leaves the file empty")
    if is_python(path):
        return _compiled(source, text)
    return Verdict(path, "changed")


def _compiled(source: SourceFile, text: str) -> Verdict:
    problem = _compile_problem(source.bytes_of(text), source.path)
    if problem is None:
        return Verdict(source.path, "changed")
    reason = f"does not compile with Python {platform.python_version()}: {_described(problem)}"
    if _compile_problem(source.bytes_of(source.text), source.path) is not None:
        reason += " (nor did the file before)"
    return Verdict(source.path, "doubtful", reason, _line_at_fault(problem, text))


def _compile_problem(data: bytes, path: str) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The bytes, not the text: they carry the declared encoding.
            compile(data, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            return error
    return None


def _described(problem: Exception) -> str:
    if isinstance(problem, SyntaxError):
        return f"line {problem.lineno or 1}: {problem.msg}"
    return f"{type(problem).__name__}: {problem}".removesuffix(": ")


def _line_at_fault(problem: Exception, text: str) -> str:
    if not isinstance(problem, SyntaxError):
        return ""
    lines = text.split("\n")
    number = problem.lineno or 1
    return lines[number - 1] if 0 < number <= len(lines) else ""
