"""Whole answers and whole results at once, where the product takes them piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tasks.edits.answer import Answer, AnswerParser
from tasks.edits.apply import Applied, Refused, apply_one, write_one_out
from tasks.edits.checks import Change, Result
from tasks.edits.source import SourceFile


def parse_answer(text: str, files: Sequence[SourceFile], boundary: str) -> Answer:
    parser = AnswerParser(files, boundary)
    parser.feed(text)
    return parser.close()


def apply(result: Result, root: Path, force: bool = False) -> list[Applied | Refused]:
    """Replace the changed files below `root`. Unchanged files are not mentioned."""
    return _each(result, partial(apply_one, root=root, force=force))


def write_out(result: Result, out_dir: Path, force: bool = False) -> list[Applied | Refused]:
    """Write the changed files below `out_dir`."""
    return _each(result, partial(write_one_out, out_dir=out_dir, force=force))


def _each(result: Result, write: Callable[[Change], Applied | Refused]) -> list[Applied | Refused]:
    changed = (change for change in result.changes if change.verdict.kind != "unchanged")
    refused = (Refused(verdict.path, verdict.reason) for verdict in result.refused)
    return [*map(write, changed), *refused]
