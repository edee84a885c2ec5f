"""What becomes of the files of a run, each as soon as that can be said.

A file that is ready is written at once where files are written and no command has to judge them;
else with its job. Whatever the last word of the answer is, the disk has in the end: a file that was
written and comes out differently after a restart is written again, one that the restarted answer
leaves alone is put back. Only what was sent, or what the run itself wrote, is ever written over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tasks.edits.answer import Answer
from tasks.edits.checks import Change, Result, Verdict, check
from tasks.edits.disk import create_or_replace, words
from tasks.edits.leftovers import sweep
from tasks.edits.paths import PathRefused, locate, shown
from tasks.edits.source import SourceFile
from tasks.runs.progress import COMPLETED, Ended, Ready
from tasks.runs.record import Delivery

if TYPE_CHECKING:
    from tasks.edits.apply import Ours
    from tasks.runs.scratch import Scratch

State = Literal["changed", "written", "put back", "unchanged", "doubtful", "refused", "missing"]

#: Nothing comes of these files, and the user should know.
BAD: frozenset[State] = frozenset({"doubtful", "refused", "missing"})


class FileDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one file. `changed`: it will be shown, or go into the patch or the branch."""

    path: str
    state: State
    reason: str = ""
    excerpt: str = ""


class Deliverer:
    """Of one run. `ours` knows what was written before; `scratch` judges, if anybody does."""

    def __init__(
        self,
        sources: Mapping[str, SourceFile],
        root: Path,
        delivery: Delivery,
        ours: Ours,
        scratch: Scratch | None = None,
    ) -> None:
        self._sources = sources
        self._root = root
        self._delivery = delivery
        self._ours = ours
        self._scratch = scratch
        self._changes: dict[str, Change] = {}
        self._texts: dict[str, str] = {}
        self.done: dict[str, FileDone] = {}
        self.notes: list[str] = []
        #: Of the branch, once it is made.
        self.commit = ""

    @property
    def changes(self) -> list[Change]:
        """What was accepted, by path."""
        return [self._changes[path] for path in sorted(self._changes)]

    def ready(self, event: Ready) -> list[FileDone]:
        """A file is ready: write it, if that is to be done at once."""
        if self._delivery.how not in ("apply", "out") or self._scratch is not None:
            return []
        return self._settled(self._judged({event.path: event.text}))

    def ended(self, event: Ended, paths: Iterable[str]) -> list[FileDone]:
        """A job has ended: its other files, and what became of those that did not come."""
        if event.notes:
            self.notes.append(event.notes)
        new = {path: text for path, text in event.files.items() if self._texts.get(path) != text}
        told = self._settled(self._judged(new))
        absent = [path for path in paths if path not in event.files]
        return [*told, *(done for path in absent if (done := self._absent(path, event)))]

    def _judged(self, files: Mapping[str, str]) -> Result:
        self._texts.update(files)
        return check(list(self._sources.values()), Answer(dict(files)), self._root)

    def _settled(self, result: Result) -> list[FileDone]:
        told = [FileDone(v.path, "refused", v.reason, v.excerpt) for v in result.refused]
        wanted = []
        for change in result.changes:
            verdict = change.verdict
            if verdict.kind == "doubtful" and not self._delivery.force:
                reason = f"{verdict.reason}; --force takes it all the same"
                told.append(FileDone(change.path, "doubtful", reason, verdict.excerpt))
            else:
                wanted.append(change)
        passed, failed = self._passing(wanted)
        told += failed
        told += [self._take(change) for change in passed]
        self.done.update({each.path: each for each in told})
        return told

    def _passing(self, changes: list[Change]) -> tuple[list[Change], list[FileDone]]:
        """Those with which the user's command succeeds: all of a job, or else one by one."""
        real = [change for change in changes if change.verdict.kind != "unchanged"]
        if self._scratch is None or not real:
            return changes, []
        if self._try(real) == "":
            return changes, []
        failed: dict[str, FileDone] = {}
        for change in real:
            if why := self._try([change]):
                failed[change.path] = FileDone(change.path, "refused", why)
        return [each for each in changes if each.path not in failed], list(failed.values())

    def _try(self, changes: list[Change]) -> str:
        """Why the command fails with these changes; they stay in the copy if it does not."""
        assert self._scratch is not None
        for change in changes:
            self._scratch.put(change.path, change.after)
        checked = self._scratch.check()
        if not checked.passed:
            for change in changes:
                kept = self._changes.get(change.path)
                self._scratch.put(change.path, kept.after if kept else change.before)
        last = checked.output.splitlines()[-1:] if checked.why else []
        return ": ".join([checked.why, *last]) if checked.why else ""

    def _take(self, change: Change) -> FileDone:
        path = change.path
        if change.verdict.kind == "unchanged":
            self._changes.pop(path, None)
            return self._put_back(path) or FileDone(path, "unchanged")
        self._changes[path] = change
        if self._delivery.how not in ("apply", "out"):
            return FileDone(path, "changed", change.verdict.reason, change.verdict.excerpt)
        return self._write(change, "written")

    def _write(self, change: Change, state: State) -> FileDone:
        from tasks.edits.apply import Applied, apply_one, write_one_out

        force = self._delivery.force
        if self._delivery.how == "out":
            place = Path(self._delivery.to)
            outcome = write_one_out(change, place, force=force, ours=self._ours)
        else:
            outcome = apply_one(change, self._root, force=force, ours=self._ours)
        if isinstance(outcome, Applied):
            return FileDone(change.path, state, "" if outcome.written else "was written before")
        return FileDone(change.path, "refused", outcome.reason)

    def _absent(self, path: str, event: Ended) -> FileDone | None:
        """A file that the last word of the answer does not have."""
        self._changes.pop(path, None)
        self._texts.pop(path, None)
        done = self._put_back(path)
        if done is None and event.outcome == COMPLETED:
            done = FileDone(path, "unchanged")
        elif done is None:
            reason = event.reason or event.outcome
            done = FileDone(path, "missing", f"job {event.job_id} {event.outcome}: {reason}")
        self.done[path] = done
        return done

    def _put_back(self, path: str) -> FileDone | None:
        """None when the run has not written the file, or it is as it was."""
        source = self._sources.get(path)
        if source is None or not self._ours.sums(path) or self._delivery.how != "apply":
            return None
        change = Change(Verdict(path, "unchanged"), source, source.text)
        done = self._write(change, "put back")
        return None if done.reason == "was written before" else done

    def sweep(self) -> list[str]:
        """Remove what commands that were killed while they wrote have left where this one writes; a
        line for each file that can not be removed."""
        stuck = [each for place in sorted(self._places()) for each in sweep(place)]
        return [f"{shown(str(p))} is left from a killed command: {words(e)}" for p, e in stuck]

    def _places(self) -> set[Path]:
        how, to = self._delivery.how, Path(self._delivery.to)
        places = {Path(os.path.realpath(to)).parent} if how == "patch" else set()
        for root in (self._root, *([to] if how == "out" else [])):
            for path in self._sources:
                # A directory that has become a link out of the root is nobody's to clean.
                with suppress(PathRefused):
                    places.add(locate(root, path).parent)
        return places

    def patch(self) -> bytes:
        return b"".join(change.diff for change in self.changes)

    def finish(self, message: str, run_id: str) -> list[FileDone]:
        """All jobs have ended: make the patch or the branch. Raises BranchError, or OSError."""
        if not self._changes:
            return []
        if self._delivery.how == "patch":
            create_or_replace(Path(self._delivery.to), self.patch())
        elif self._delivery.how == "branch":
            from tasks.runs.branch import Branch

            placed = Branch(self._root, self._delivery.to, run_id).place(self.changes, message)
            self.commit = placed.commit
            told = [FileDone(path, "refused", reason) for path, reason in placed.refused]
            for each in told:
                self._changes.pop(each.path)
            self.done.update({each.path: each for each in told})
            return told
        return []
