"""A tree, a refactor of it and the answers to that, without a model and without a store."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Set
from pathlib import Path

from tasks.edits.blocks import block, boundary_for
from tasks.edits.reading import AnswerReading
from tasks.edits.source import SourceFile, read_sources
from tasks.runs.delivery import Deliverer
from tasks.runs.progress import Ended, JobProgress, JobView, Ready
from tasks.runs.record import Delivery, How
from tasks.runs.scratch import Scratch
from worker.log.view import Attempt, Cut, End, Followed, Text

INSTRUCTION = "change it"


class Memory:
    """Remembers what was written, as the store would; survives a crash of who writes."""

    def __init__(self) -> None:
        self.written: dict[str, frozenset[str]] = {}

    def sums(self, path: str) -> Set[str]:
        return self.written.get(path, frozenset())

    def intend(self, path: str, sha256: str) -> None:
        self.written[path] = frozenset({*self.sums(path), sha256})


class Refactoring:
    """One job over files of a directory, and one who delivers it."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, bytes],
        how: How = "apply",
        *,
        to: str = "",
        scratch: Scratch | None = None,
        force: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self.root = root
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        self.sources: list[SourceFile] = read_sources(list(files), root, 1_000_000)
        self.boundary = boundary_for(self.sources, INSTRUCTION)
        self.memory = memory or Memory()
        self._delivery = Delivery(how=how, to=to, force=force)
        self._scratch = scratch
        self.restart()

    def restart(self) -> None:
        """The command died; a new one begins from the start of the log."""
        self.view = JobView("job", tuple(file.path for file in self.sources))
        self.progress = JobProgress(self.view, AnswerReading(self.sources, self.boundary))
        self.deliverer = Deliverer(
            {file.path: file for file in self.sources},
            self.root,
            self._delivery,
            self.memory,
            self._scratch,
        )

    def answer(self, **texts: str) -> str:
        """Blocks for files, named by their stems."""
        by_stem = {file.path.rpartition("/")[2].split(".")[0]: file.path for file in self.sources}
        return "".join(block(self.boundary, by_stem[stem], text) for stem, text in texts.items())

    def take(self, *items: Followed) -> dict[str, str]:
        """Feed the log; the state of every file that something became of."""
        told: dict[str, str] = {}
        for item in items:
            for event in self.progress.take(item):
                done = (
                    self.deliverer.ready(event)
                    if isinstance(event, Ready)
                    else self.deliverer.ended(event, self.view.paths)
                )
                told |= {each.path: each.state for each in done}
        return told

    def whole(self, text: str, outcome: str = "completed") -> dict[str, str]:
        """A whole answer, from the first entry to the seal."""
        return self.take(began(), said(text), sealed(outcome))

    def read(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()


def began(attempt: int = 1, mode: str = "start") -> Attempt:
    return Attempt(cursor=f"{attempt}-0", attempt=attempt, mode=mode, worker="w", key="k")


def said(text: str, offset: int = 0) -> Text:
    return Text(cursor="1-1", offset=offset, text=text)


def cut(offset: int = 0) -> Cut:
    return Cut(cursor="2-0", offset=offset)


def sealed(outcome: str = "completed", reason: str = "") -> End:
    return End(cursor="9-9", outcome=outcome, length=0, digest="", attempts=1, reason=reason)


def ended(files: Mapping[str, str]) -> Ended:
    return Ended("job", "completed", "", files)


def git(root: Path, *arguments: str, given: bytes = b"") -> str:
    """Git without anybody's settings. AssertionError with its complaint when it fails."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    named = {
        f"GIT_{who}_{what}": "longstream@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        input=given,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **quiet, **named},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
