"""Submitting a job: its record, then its place in the line. Each step is safe to repeat.

The order matters: a record without a place is a job that waits until its submit is repeated or a
worker finds the note that it had begun; a place without a record would be granted to a worker that
cannot know what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import redis
from redis.exceptions import NoScriptError

from settings.errors import LongstreamError
from settings.model import Tracing
from worker.admission import line
from worker.job.terms import USUAL, Terms
from worker.seeing.tracing import Attributes, submitting
from worker.store.keys import JOBS, SUBMITTING, job_keys
from worker.store.scripts import script

#: Where nobody looks.
UNTRACED = Tracing()

_NOTE = script("worker.log", "note")
_SUBMIT = script("worker.log", "submit")

#: How many of the oldest index members one submit looks at; two a submit outrun their arrival.
_PRUNED = 2

_TENANT_CHARS = 200


#: A command, or the call of a script.
Step = list[Any] | line.Call

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class StoreFull(LongstreamError):
    """Redis refuses writes; the job was not submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The ordinary Celery message of a task, as its producer would have published it."""

    body: Any
    headers: dict[str, Any]
    properties: dict[str, Any]

    def dump(self) -> str:
        """Raises LongstreamError for arguments that are not JSON."""
        try:
            return json.dumps([self.body, self.headers, self.properties])
        except (TypeError, ValueError) as error:
            raise LongstreamError(
                f"a job's arguments must be JSON values: {error}; convert it before submitting"
            ) from error

    @classmethod
    def load(cls, stored: str | bytes) -> Message:
        body, headers, properties = json.loads(stored)
        return cls(body=body, headers=headers, properties=properties)


def plain_message(
    task: str, job_id: str, args: list[Any], kwargs: dict[str, Any], *, ignore_result: bool = False
) -> Message:
    """The message Celery would make of `task.delay(*args, **kwargs)`, in protocol version 2."""
    headers: dict[str, Any] = {
        "lang": "py",
        "task": task,
        "id": job_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": job_id,
        "parent_id": None,
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "ignore_result": ignore_result,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return Message(
        body=[args, kwargs, embedded], headers=headers, properties={"correlation_id": job_id}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    job_id: str
    task: str
    model: str
    pool: str
    label: str
    message: Message
    estimate: line.Estimate = line.UNKNOWN
    tenant: str = "default"
    #: The tenant's share of the line.
    weight: float = 1.0
    priority: str = "normal"
    wait_ms: int = 0
    terms: Terms = USUAL
    #: What chose the model, where it was to be chosen, and what it would have been.
    rule: str = ""
    instead_of: str = ""
    tracing: Tracing = UNTRACED

    def attributes(self) -> Attributes:
        """What a trace says of the job."""
        return {
            "longstream.job": self.job_id,
            "longstream.task": self.task,
            "longstream.pool": self.pool,
            "longstream.priority": self.priority,
            "gen_ai.request.model": self.model,
        }

    def ticket(self) -> line.Ticket:
        """What the line must know of the job. Raises LongstreamError."""
        if self.priority not in line.CLASSES:
            raise LongstreamError(
                f"unknown priority {self.priority!r}: it is one of {', '.join(line.CLASSES)}"
            )
        if not 0 < len(self.tenant) <= _TENANT_CHARS:
            raise LongstreamError(f"a tenant's name has 1 to {_TENANT_CHARS} characters")
        return line.Ticket(
            tenant=self.tenant,
            priority=self.priority,
            weight=self.weight,
            model=self.model,
            kind=f"{self.task} {self.model} {self.estimate.effort}",
            prompt=self.estimate.prompt,
            cap=self.estimate.cap,
        )


def submit(client: redis.Redis, job: Submission) -> None:
    """Write the record, list the job, put it in the line. The same id again changes nothing.

    Raises LongstreamError for what can not be submitted, and StoreFull.
    """
    submit_all(client, [job])


def submit_all(client: redis.Redis, jobs: Sequence[Submission]) -> None:
    """Submit some jobs together, in as few round trips as one of them takes: for a hundred or so.

    Raises as `submit` does; what was submitted by then is, and the rest was never begun or will be
    finished by a worker.
    """
    tickets = [_checked(job) for job in jobs]
    with ExitStack() as traces:
        for job in jobs:
            traces.enter_context(submitting(job.tracing, job.message.headers, job.attributes()))
        try:
            _write(client, jobs, tickets)
        except redis.OutOfMemoryError as error:
            raise StoreFull(
                f"Redis is full, job {jobs[0].job_id} was not submitted: "
                "free memory or raise maxmemory, then submit again"
            ) from error


def _checked(job: Submission) -> line.Ticket:
    if not _ID.fullmatch(job.job_id):
        raise LongstreamError(
            f"not a job id: {job.job_id!r}; letters, digits and ._:- up to 128 of them can be one"
        )
    return job.ticket()


def _write(client: redis.Redis, jobs: Sequence[Submission], tickets: Sequence[line.Ticket]) -> None:
    """Three round trips. What was noted first is forgotten last, so a crash anywhere is found."""
    steps: list[Step] = []
    for job, ticket in zip(jobs, tickets, strict=True):
        keys = job_keys(job.job_id)
        steps.append(_NOTE.whole([SUBMITTING], [job.job_id, 0]))
        steps.append((_SUBMIT, [keys.record, keys.tombstone], _fields(job, ticket)))
        steps.append(_NOTE.whole([JOBS], [job.job_id, _PRUNED * len(jobs)]))
    replies = _together(client, steps)
    names = [job.job_id for job in jobs]
    gone = _enter(client, dict(zip(names, replies[1::3], strict=True)), replies[-1])
    forget: list[Step] = [["ZREM", SUBMITTING, *names]]
    _together(client, [*forget, *([["ZREM", JOBS, *gone]] if gone else [])])


def _enter(
    client: redis.Redis, recorded: Mapping[str, Sequence[Any]], oldest: Sequence[bytes]
) -> list[bytes]:
    """Put recorded jobs into the line; which of the oldest have no record any more."""
    steps: list[Step] = [["EXISTS", job_keys(old.decode()).record] for old in oldest]
    waiting = {job_id: rest for job_id, (state, *rest) in recorded.items() if state == b"waiting"}
    for job_id, (pool, ticket, wait_ms) in waiting.items():
        its = msgspec.json.decode(ticket, type=line.Ticket)
        steps.append(line.enqueue(pool.decode(), job_id, its, wait_ms=wait_ms))
        steps.append(["HGET", job_keys(job_id).record, "state"])
    replies = _together(client, steps) if steps else []
    states = replies[len(oldest) + 1 :: 2]
    for (job_id, (pool, *_)), state in zip(waiting.items(), states, strict=True):
        if state == b"ended":
            # It ran and was settled between the two: nobody must come to run it once more.
            line.run(client, line.withdraw(pool.decode(), job_id))
    return [old for old, exists in zip(oldest, replies, strict=False) if not exists]


def _together(client: redis.Redis, steps: Sequence[Step]) -> list[Any]:
    """Commands and calls of scripts in one round trip; all of them again when a script is new to
    the server. Raises the first error there was."""
    replies: list[Any] = []
    for whole in (False, True):
        pipeline: Any = client.pipeline(transaction=False)
        for step in steps:
            pipeline.execute_command(*(step if isinstance(step, list) else _called(step, whole)))
        replies = pipeline.execute(raise_on_error=False)
        errors = [reply for reply in replies if isinstance(reply, Exception)]
        if errors and not isinstance(errors[0], NoScriptError):
            raise errors[0]
        if not errors:
            break
    return replies


def _called(step: line.Call, whole: bool) -> list[Any]:
    made, keys, args = step
    return made.whole(keys, args) if whole else made.command(keys, args)


def resubmit_lost(client: redis.Redis, older_than_ms: int) -> list[str]:
    """Finish the submits that crashed on the way; the ids of jobs that are in the line now.

    What crashed before its record was written was never a job, and is forgotten.
    """
    now = now_ms(client)
    # What began in the future began before the server's clock was set back.
    spans: Any = [("-inf", now - older_than_ms), (now + older_than_ms, "+inf")]
    found: Any = [job for span in spans for job in client.zrangebyscore(SUBMITTING, *span)]
    return [job.decode() for job in found if _enter_line(client, job.decode())]


def _enter_line(client: redis.Redis, job_id: str) -> bool:
    """Put a recorded job into the line, as its record says. True when it was not there before, and
    waits. Only then may the note that its submit had begun be forgotten."""
    record = job_keys(job_id).record
    fields: Any = client.hmget(record, "state", "pool", "ticket", "due_ms")
    state, pool, ticket, due_ms = fields
    entered = False
    if state == b"waiting":
        wait_ms = max(0, int(due_ms) - now_ms(client)) if due_ms else 0
        name, its = pool.decode(), msgspec.json.decode(ticket, type=line.Ticket)
        entered = line.run(client, line.enqueue(name, job_id, its, wait_ms=wait_ms)) == 1
        if entered and client.hget(record, "state") == b"ended":
            # It ran and was settled between the two: nobody must come to run it once more.
            line.run(client, line.withdraw(name, job_id))
            entered = False
    client.zrem(SUBMITTING, job_id)
    return entered


def now_ms(client: redis.Redis) -> int:
    """The server's time."""
    seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def _fields(job: Submission, ticket: line.Ticket) -> list[Any]:
    cost = job.terms.max_cost_usd
    fields = {
        "task": job.task,
        "model": job.model,
        "pool": job.pool,
        "label": job.label,
        "tenant": job.tenant,
        "priority": job.priority,
        "ticket": msgspec.json.encode(ticket),
        "message": job.message.dump(),
        "rule": job.rule,
        "instead_of": job.instead_of,
        "on_interrupt": job.terms.on_interrupt,
        "max_cost_micros": 0 if cost is None else max(1, round(cost * 1_000_000)),
    }
    deadline_ms = int((job.terms.deadline_s or 0) * 1000)
    return [deadline_ms, job.wait_ms, *(part for pair in fields.items() for part in pair)]
