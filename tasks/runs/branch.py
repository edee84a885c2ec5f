"""The changes as one commit on a new branch, without touching the working tree or the index.

A file goes onto the branch only if what was sent is what HEAD has: else the commit would hold
changes the user has not committed. The branch is made in one step at the end, or not at all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from settings.errors import LongstreamError
from tasks.edits.checks import Change
from tasks.edits.leftovers import TemporaryDirectory

_TRAILER = "Longstream-Run"


class BranchError(LongstreamError):
    """The branch can not be made; nothing was."""


class Placed(msgspec.Struct, frozen=True):
    """`refused`: path and reason, of the changes that are not on the branch. `commit` is empty when
    there was nothing to put on it."""

    commit: str
    refused: tuple[tuple[str, str], ...] = ()


class Branch:
    """A branch to be, in the repository that `root` lies in."""

    def __init__(self, root: Path, name: str, run_id: str) -> None:
        self._root = root
        self._name = name
        self._run = run_id
        self._ref = f"refs/heads/{name}"
        self._environ = {**os.environ, "LC_ALL": "C"}

    def check(self) -> None:
        """Raises BranchError when it can not be made, before anything is sent."""
        self._git("rev-parse", "--show-toplevel", or_say="is in no git repository: use --patch")
        self._git("rev-parse", "--verify", "-q", "HEAD^{commit}", or_say="has no commit yet")
        if name := self._name:
            self._git("check-ref-format", "--branch", name, or_say=f"{name!r} is no branch name")
        if self._exists() and not self._is_of_this_run():
            raise BranchError(f"branch {self._name} exists already: choose another name")

    def place(self, changes: Sequence[Change], message: str) -> Placed:
        """One commit with these changes on top of HEAD."""
        self.check()
        if self._exists():
            return Placed(self._line("rev-parse", self._ref))
        with TemporaryDirectory("index") as place:
            self._environ["GIT_INDEX_FILE"] = str(place / "index")
            try:
                return self._placed(changes, message)
            finally:
                del self._environ["GIT_INDEX_FILE"]

    def _placed(self, changes: Sequence[Change], message: str) -> Placed:
        head, refused, placed = self._line("rev-parse", "HEAD"), [], 0
        self._git("read-tree", head)
        prefix = self._line("rev-parse", "--show-prefix")
        for change in changes:
            path = prefix + change.path
            entry = self._entry(path)
            if entry is None:
                refused.append((change.path, "is not in HEAD: commit it first, or use --patch"))
                continue
            mode, blob = entry
            if self._blob(change.path, change.before) != blob:
                refused.append((change.path, "differs from HEAD: commit it first, or use --patch"))
                continue
            placed += 1
            self._stage(mode, self._blob(change.path, change.after, write=True), path)
        if not placed:
            return Placed("", tuple(refused))
        tree = self._line("write-tree")
        text = f"{message}\n\n{_TRAILER}: {self._run}\n".encode()
        commit = self._line("commit-tree", tree, "-p", head, given=text)
        self._git("update-ref", self._ref, commit, "0" * len(commit))
        return Placed(commit, tuple(refused))

    def _entry(self, path: str) -> tuple[str, str] | None:
        """Mode and blob of a file in the index."""
        place = f":(top,literal){path}"
        listed = self._git("ls-files", "--stage", "-z", "--full-name", "--", place)
        if not listed:
            return None
        mode, blob, _ = listed.split(b"\t", 1)[0].decode().split(" ")
        return mode, blob

    def _blob(self, path: str, data: bytes, *, write: bool = False) -> str:
        """As git would store it: its filters may change line endings."""
        options = ("-w",) if write else ()
        return self._line("hash-object", *options, f"--path={path}", "--stdin", given=data)

    def _stage(self, mode: str, blob: str, path: str) -> None:
        entry = f"{mode} {blob}\t{path}".encode("utf-8", "surrogateescape") + b"\0"
        self._git("update-index", "-z", "--index-info", given=entry)

    def _exists(self) -> bool:
        return bool(self._git("for-each-ref", "--format=x", self._ref))

    def _is_of_this_run(self) -> bool:
        said = self._git("log", "-1", f"--format=%(trailers:key={_TRAILER},valueonly)", self._ref)
        return said.decode().strip() == self._run

    def _line(self, *arguments: str, given: bytes = b"") -> str:
        return (
            self._git(*arguments, given=given).decode("utf-8", "surrogateescape").removesuffix("\n")
        )

    def _git(self, *arguments: str, given: bytes = b"", or_say: str = "") -> bytes:
        try:
            done = subprocess.run(
                ["git", *arguments],  # noqa: S607 - the git the user has
                cwd=self._root,
                env=self._environ,
                input=given,
                capture_output=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise BranchError("git is not installed: use --patch") from error
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = or_say or (said[-1] if said else f"git {arguments[0]} failed")
        raise BranchError(f"branch {self._name}: {reason}")
