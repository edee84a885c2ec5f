"""Following a run to its end: its jobs' logs in, files out, each as soon as it is ready.

One file is shown as its text comes; several are shown on a board. Ctrl-C leaves every job running
and prints the command that takes the run up again; what was written by then is not written twice.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import redis

from settings.errors import LongstreamError
from tasks import jobs
from tasks.cli.deliver import as_json, line_of_file, report
from tasks.cli.embedded import explaining
from tasks.cli.exits import FAILED, INTERRUPTED, OUTCOMES
from tasks.cli.follow import conclude, follow, sink_for
from tasks.cli.interrupts import Interrupts
from tasks.cli.prepare import say
from tasks.cli.sinks import Sink, line_of
from tasks.current import current
from tasks.edits.blocks import boundary_for
from tasks.edits.disk import words
from tasks.edits.prompt import messages_for
from tasks.edits.reading import AnswerReading
from tasks.runs.begin import Found
from tasks.runs.delivery import Deliverer, FileDone
from tasks.runs.progress import Ended, Event, JobProgress, JobView, Ready
from tasks.runs.record import Delivery, Journal
from tasks.stored import store
from worker.admission.estimates import estimate, tokens_of
from worker.errors import StoreError, UnknownJob
from worker.log.entries import Tokens
from worker.log.follow import LogExpired
from worker.log.many import tail_many
from worker.log.view import Followed, Status
from worker.upstream.request import Request

if TYPE_CHECKING:
    from tasks.cli.boards import Board
    from tasks.runs.scratch import Scratch


class Following:
    """One run, its jobs' progress, and who delivers its files."""

    def __init__(
        self,
        found: Found,
        root: Path,
        delivery: Delivery,
        journal: Journal,
        scratch: Scratch | None,
    ) -> None:
        self.found = found
        self.delivery = delivery
        self.deliverer = Deliverer(found.sources, root, delivery, journal, scratch)
        self.views: dict[str, JobView] = {}
        self._progress: dict[str, JobProgress] = {}
        for job in found.run.jobs:
            view = self.views[job.id] = JobView(job.id, job.paths)
            if job.id not in found.lost:
                sources = [found.sources[path] for path in job.paths]
                messages = messages_for(sources, found.instruction)
                view.prompt = estimate(Request(model=found.run.model, messages=messages)).prompt
                view.sizes = {file.path: tokens_of(file.text) for file in sources}
                reading = AnswerReading(sources, boundary_for(sources, found.instruction))
                self._progress[job.id] = JobProgress(view, reading)

    def take(self, job_id: str, item: Followed) -> list[FileDone]:
        return [done for event in self._progress[job_id].take(item) for done in self._of(event)]

    def gone(self, job_id: str, problem: Exception) -> list[FileDone]:
        """The log is past retention, or the job was never sent: the record may have the result."""
        view = self.views[job_id]
        view.state, view.outcome, view.reason = "ended", "failed", str(problem)
        event = Ended(job_id, view.outcome, view.reason, {})
        if isinstance(problem, LogExpired):
            record = jobs.status(job_id)
            result = record.result or {"files": {}, "notes": ""}
            view.outcome, view.reason, view.usage = record.outcome, record.reason, record.usage
            event = Ended(job_id, record.outcome, record.reason, result["files"], result["notes"])
        return self._of(event)

    def _of(self, event: Event) -> list[FileDone]:
        if isinstance(event, Ready):
            return self.deliverer.ready(event)
        view = self.views[event.job_id]
        with suppress(UnknownJob):
            record = jobs.status(view.id)
            view.cost = record.cost
            view.taken = sum((each.tokens for each in record.spent), Tokens())
        return self.deliverer.ended(event, view.paths)

    def finish(self) -> list[FileDone]:
        return self.deliverer.finish(self.found.instruction.strip(), self.found.run.id)

    def code(self) -> int:
        """The exit code, by the worst that happened."""
        if any(done.state in ("refused", "doubtful") for done in self.deliverer.done.values()):
            return FAILED
        codes = {OUTCOMES.get(view.outcome, FAILED) for view in self.views.values()}
        worst = (FAILED, OUTCOMES["incomplete"], OUTCOMES["cancelled"])
        return next((code for code in worst if code in codes), 0)


def _judged(root: Path, delivery: Delivery) -> AbstractContextManager[Scratch | None]:
    """Where the user's own check judges what comes, if there is one."""
    if not delivery.check:
        return nullcontext()
    from tasks.runs.scratch import Scratch

    return Scratch(root, delivery.check, delivery.check_s)


def follow_run(
    found: Found, root: Path, delivery: Delivery, *, again: str, as_objects: bool, simulated: bool
) -> int:
    """Follow to the end, deliver, tell; the exit code."""
    settings = current()
    with store() as client, _judged(root, delivery) as scratch:
        journal = Journal(client, found.run.id, settings.retention.ages_s[1])
        following = Following(found, root, delivery, journal, scratch)
        following.deliverer.sweep()
        shown = _one if found.run.files == 1 else _many
        code = shown(following, client, again, as_objects, simulated)
        told = _finished(following, again)
    for line in (*following.deliverer.sweep(), *map(line_of_file, told)):
        say(line)
    if as_objects:
        click.echo(msgspec.json.encode(as_json(following.deliverer)).decode())
    else:
        report(following.deliverer, root, delivery.how, delivery.to)
    return code or following.code()


def _finished(following: Following, again: str) -> list[FileDone]:
    try:
        return following.finish()
    except OSError as error:
        place = following.delivery.to
        raise LongstreamError(
            f"{place} can not be written: {words(error)}; the answers are kept: {again}"
        ) from error


class _Along:
    """A sink that delivers what it is shown."""

    def __init__(self, sink: Sink, following: Following, job_id: str) -> None:
        self.options = sink.options
        self.told: list[FileDone] = []
        self._sink = sink
        self._following = following
        self._job_id = job_id

    def take(self, item: Followed) -> None:
        self._sink.take(item)
        for done in self._following.take(self._job_id, item):
            if done.state == "written":
                self._sink.say(line_of_file(done))
            else:
                self.told.append(done)

    def say(self, line: str) -> None:
        self._sink.say(line)

    def close(self) -> None:
        self._sink.close()


def _one(
    following: Following, client: redis.Redis, again: str, as_objects: bool, simulated: bool
) -> int:
    (job_id,) = following.views
    sink = sink_for(json=as_objects, simulated=simulated, text_on_stdout=sys.stdout.isatty())
    along = _Along(sink, following, job_id)
    code = 0
    try:
        code = conclude(follow(job_id, "0-0", along, again=again), job_id, simulated=simulated)
    except LogExpired as expired:
        along.told += following.gone(job_id, expired)
    for done in along.told:
        if not as_objects and done.state != "changed":
            say(line_of_file(done))
    return code


def _many(
    following: Following, client: redis.Redis, again: str, as_objects: bool, simulated: bool
) -> int:
    from settings.prices import price_of
    from tasks.cli.boards import Scene, board_for

    run, settings = following.found.run, current()
    done = following.deliverer.done
    price = price_of(run.model, settings.prices)
    board = board_for(Scene(run.id, following.views, done, price, simulated), json=as_objects)
    # As in `follow`.
    gc.freeze()
    gc.enable()
    interrupts = Interrupts()
    with _left_running(board, run.id, again), interrupts.handled():
        for job_id, problem in following.found.lost.items():
            _tell(board, following.views[job_id], following.gone(job_id, StoreError(problem)))
        explained = explaining(settings)
        live = [job.id for job in run.jobs if job.id not in following.found.lost]
        for job_id, item in tail_many(client, live):
            with interrupts.step():
                if isinstance(item, StoreError):
                    _tell(board, following.views[job_id], following.gone(job_id, item))
                    continue
                seen = explained(item) if isinstance(item, Status) else item
                if isinstance(seen, Status) and not job_id:
                    board.say(line_of(seen))
                    continue
                _tell(board, following.views[job_id], following.take(job_id, seen))
    return 0


def _tell(board: Board, view: JobView, told: list[FileDone]) -> None:
    board.changed(view)
    for done in told:
        board.file(done)


@contextmanager
def _left_running(board: Board, run_id: str, again: str) -> Iterator[None]:
    """Ctrl-C says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        # Impatience must not cost the command that goes on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        board.close()
        say(f"run {run_id} goes on; take it up again with")
        click.echo(f"  {again}", err=True)
        sys.exit(INTERRUPTED)
    except BaseException:
        board.close()
        raise
    board.close()
