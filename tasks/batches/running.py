"""Runs a batch: a bounded number of jobs at a time, each answer written as its job ends.

What is in flight is bounded, in the line and in memory, so the input may have any number of lines.
A job whose answer is written keeps its record and log only a little longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import IO, Any

import redis

from settings.errors import LongstreamError
from settings.model import Settings
from tasks.batches import lines, output
from tasks.batches.answers import Answer, tokens_in
from tasks.batches.lines import Asked, Fault
from tasks.batches.output import Output
from tasks.ended import Endings, release
from tasks.submitting import submitted
from worker.errors import UnknownJob
from worker.job.records import Record
from worker.job.submission import Submission
from worker.job.submitting import StoreFull, submit
from worker.ledger.allowed import BudgetSpent, refuse_spent
from worker.ledger.cost import NOTHING, Cost, cost_of
from worker.ledger.totals import cost_of_all
from worker.log import reader
from worker.log.entries import Tokens
from worker.log.status import status_of
from worker.log.view import Status
from worker.outcomes import Outcome
from worker.store.connections import now_ms

#: Pause before a store that was full is asked again, in seconds.
_FULL_S = 1.0
#: When nothing has ended for so long, it is asked why, and then as often, in seconds.
_QUIET_S = 2.0
#: How an answer of each outcome ended, in the words of the APIs.
_FINISH = {
    Outcome.COMPLETED: "stop",
    Outcome.INCOMPLETE: "length",
    Outcome.FILTERED: "content_filter",
    Outcome.REFUSED: "refusal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to run it. `max_cost`: USD after which nothing more is asked; None: no limit."""

    tenant: str = "default"
    priority: str = "bulk"
    window: int = 500
    max_cost: Decimal | None = None
    keep: bool = False


@dataclass(slots=True)
class Progress:
    """How far it has come. `before` of the lines were there from an earlier run."""

    lines: int = 0
    written: int = 0
    failed: int = 0
    before: int = 0
    in_flight: int = 0
    cost: Cost = NOTHING
    #: What stopped it before the end of the input.
    held: str = ""
    #: What the oldest job in flight waits for, when nothing ends.
    waits: str = ""


class Batch:
    """One run. `step` is called whenever something has changed, and at least once a second."""

    def __init__(
        self,
        client: redis.Redis,
        settings: Settings,
        output: Output,
        plan: Plan,
        step: Callable[[Progress], None],
        explained: Callable[[Status], Status] = lambda status: status,
    ) -> None:
        """`explained` may know more of what a job waits for, and do something about it."""
        self._client = client
        self._settings = settings
        self._output = output
        self._plan = plan
        self._step = step
        self._explained = explained
        self._looked_at = time.monotonic()
        self._flying: dict[str, Asked] = {}
        self._endings = Endings(client)
        #: Jobs whose cost is known, those of earlier runs included.
        self._ended = 0
        self.progress = Progress(
            written=output.written, failed=output.failed, before=output.written
        )

    def run(self, file: IO[bytes]) -> Progress:
        """Ask for every line that has no answer yet. Ctrl-C leaves what is in flight running.
        `file` can be read again (`lines.rereadable`)."""
        self._check_earlier_runs(file)
        if self._plan.max_cost is not None:
            self._count_earlier_runs()
        for asked in self._wanted(file):
            while len(self._flying) >= self._plan.window:
                self._collect()
            if self._is_spent():
                break
            try:
                self._ask(asked)
            except BudgetSpent as spent:
                self.progress.held = str(spent)
                break
        while self._flying:
            self._collect()
        return self.progress

    def _check_earlier_runs(self, file: IO[bytes]) -> None:
        """Raises Taken before anything is asked."""
        if self._output.written:
            self._output.check_against(lines.numbers(file))
            file.seek(0)

    def _count_earlier_runs(self) -> None:
        """The limit is the whole batch's, however often it is begun again."""
        earlier = self._output.lost_usd
        for record in self._output.records():
            if (error := record["error"]) is not None:
                earlier += Decimal(str(error.get("cost_usd", 0)))
            elif (response := record["response"]) is not None:
                body = response["body"]
                tokens = tokens_in(body["usage"])
                self.progress.cost += cost_of(tokens, self._settings.price(body["model"]))
                self._ended += 1
        self.progress.cost += Cost(earlier)

    def _wanted(self, file: IO[bytes]) -> Iterator[Asked]:
        for line in lines.read(file):
            self.progress.lines += 1
            if self._output.has(line.line, line.digest):
                continue
            if isinstance(line, Fault):
                self._write(line, output.fault(line))
            else:
                yield line

    def _is_spent(self) -> bool:
        """Whether the next job may take the run over its limit, as far as can be told: those in
        flight count as what jobs have cost on average."""
        limit, spent = self._plan.max_cost, self.progress.cost.usd
        if limit is None:
            return False
        while self._flying and spent + self._expected(len(self._flying) + 1) > limit:
            self._collect()
            spent = self.progress.cost.usd
        if spent + self._expected(1) <= limit and spent < limit:
            return False
        self.progress.held = f"stopped at {spent:.4f} of {limit} USD: raise --max-cost"
        return True

    def _expected(self, jobs: int) -> Decimal:
        # Nobody knows the first: one at a time until the first has ended.
        if not self._ended:
            return Decimal("Infinity") if jobs > 1 else Decimal(0)
        return self.progress.cost.usd / self._ended * jobs

    def _ask(self, asked: Asked) -> None:
        job_id = self._output.job_id(asked)
        try:
            submission = submitted(
                self._settings,
                "tasks.batch",
                (asked.url, asked.body),
                {},
                job_id=job_id,
                tenant=self._plan.tenant,
                priority=self._plan.priority,
                answered_here=True,
            )
            self._check_price(submission.model)
            self._submit(submission)
        except BudgetSpent:
            raise
        except LongstreamError as error:
            self._write(asked, output.failure(asked, "not_submitted", str(error)))
            return
        # The body may be large, and is in the job now.
        self._flying[job_id] = replace(asked, body={})
        self.progress.in_flight = len(self._flying)

    def _submit(self, submission: Submission) -> None:
        """A store that is full makes it wait, not fail."""
        while not self._is_submitted(submission):
            self._collect()
            time.sleep(_FULL_S)

    def _is_submitted(self, submission: Submission) -> bool:
        try:
            refuse_spent(self._client, self._settings, self._plan.tenant, now_ms(self._client))
            submit(self._client, submission)
        except StoreFull as full:
            self.progress.held = str(full)
            return False
        self.progress.held = ""
        return True

    def _check_price(self, model: str) -> None:
        if self._plan.max_cost is not None and not self._settings.price(model).known:
            raise LongstreamError(
                f"{model} has no known price, so its cost can not be limited: add it under "
                "[prices] in longstream.toml"
            )

    def _collect(self) -> None:
        """Write what has ended; wait a little when nothing has."""
        ended = self._endings.among(self._flying)
        for job_id, record in ended:
            self._finished(self._flying.pop(job_id), record)
        if ended:
            self.progress.waits, self._looked_at = "", time.monotonic()
        elif self._flying and time.monotonic() > self._looked_at + _QUIET_S:
            self._look_at(next(iter(self._flying)))
        self.progress.in_flight = len(self._flying)
        self._step(self.progress)

    def _look_at(self, job_id: str) -> None:
        with suppress(UnknownJob):
            status = self._explained(status_of(self._client, job_id))
            self.progress.waits = "" if status.state in ("running", "ended") else status.detail
        self._looked_at = time.monotonic()

    def _finished(self, asked: Asked, record: Record | None) -> None:
        self._ended += 1
        if record is None:
            self._write(asked, output.failure(asked, "expired", "its job is past retention"))
            return
        cost = cost_of_all(record.spent, self._settings)
        self.progress.cost += cost
        self._write(asked, self._record(asked, record, cost.usd))
        if Outcome(record.outcome) in _FINISH:
            price = self._settings.price(record.served_by or record.model)
            thrown_away = cost.usd - cost_of(record.usage or Tokens(), price).usd
            self._output.lose(max(Decimal(0), thrown_away))
        if not self._plan.keep:
            release(self._client, record.id)

    def _record(self, asked: Asked, record: Record, cost_usd: Decimal) -> dict[str, Any]:
        finish = _FINISH.get(Outcome(record.outcome))
        if finish is None:
            why = record.reason or record.outcome
            return output.failure(asked, record.outcome, why, cost_usd)
        result = record.result
        if not isinstance(result, dict):
            result = {"text": reader.text_of(self._client, record.id)}
        answer = Answer(
            job_id=record.id,
            model=record.served_by or record.model,
            created_s=record.created_ms // 1000,
            text=result["text"],
            calls=result.get("calls", ()),
            finish=finish,
            usage=record.usage or Tokens(),
        )
        return output.answer(record.id, answer.body(asked.url))

    def _write(self, line: Asked | Fault, record: dict[str, Any]) -> None:
        self._output.write(line, record)
        self.progress.written, self.progress.failed = self._output.written, self._output.failed
        self._step(self.progress)
