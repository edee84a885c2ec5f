"""Whole answers and whole results at once, where the product takes them piece by piece."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tasks.edits.answer import Answer, AnswerParser
from tasks.edits.apply import Applied, Refused, apply_one, write_one_out
from tasks.edits.checks import Change, Result, Verdict
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


def verdicts(result: Result) -> list[Verdict]:
    return [*(change.verdict for change in result.changes), *result.refused]


def patch(result: Result) -> bytes:
    """One diff of all that changes, for `git apply`."""
    return b"".join(change.diff for change in result.changes)


def _each(result: Result, write: Callable[[Change], Applied | Refused]) -> list[Applied | Refused]:
    changed = (change for change in result.changes if change.verdict.kind != "unchanged")
    refused = (Refused(verdict.path, verdict.reason) for verdict in result.refused)
    return [*map(write, changed), *refused]


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """A directory of an ordinary user's, as that user: root may write into read-only ones."""
    directory = Path(tempfile.mkdtemp(prefix="longstream-test-"))
    as_root = os.geteuid() == 0
    if as_root:
        os.chown(directory, 65534, 65534)
        os.seteuid(65534)
    try:
        yield directory
    finally:
        if as_root:
            os.seteuid(0)
        directory.chmod(0o700)
        shutil.rmtree(directory)
