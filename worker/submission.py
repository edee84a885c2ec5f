"""Submitting a job: its record, then its place in the line. Each step is safe to repeat.

The order matters: a record without a place is a job that waits until its submit is repeated or a
worker finds the note that it had begun; a place without a record would be granted to a worker that
cannot know what to do.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import redis

from settings.errors import LongstreamError
from settings.model import Tracing
from worker.admission import line
from worker.keys import JOBS, SUBMITTING, job_keys
from worker.scripts import script
from worker.seeing.tracing import Attributes, submitting
from worker.terms import USUAL, Terms

#: Where nobody looks.
UNTRACED = Tracing()

_SUBMIT = script("worker.log", "submit")

#: How many of the oldest index members one submit looks at; two a submit outrun their arrival.
_PRUNED = 2

_TENANT_CHARS = 200


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
    priority: str = "normal"
    wait_ms: int = 0
    terms: Terms = USUAL
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
            model=self.model,
            kind=f"{self.task} {self.model} {self.estimate.effort}",
            prompt=self.estimate.prompt,
            cap=self.estimate.cap,
        )


def submit(client: redis.Redis, job: Submission) -> None:
    """Write the record, list the job, put it in the line. The same id again changes nothing.

    Raises LongstreamError for what can not be submitted, and StoreFull.
    """
    if not _ID.fullmatch(job.job_id):
        raise LongstreamError(
            f"not a job id: {job.job_id!r}; letters, digits and ._:- up to 128 of them can be one"
        )
    ticket = job.ticket()
    with submitting(job.tracing, job.message.headers, job.attributes()):
        _write(client, job, ticket)


def _write(client: redis.Redis, job: Submission, ticket: line.Ticket) -> None:
    try:
        now, keys = now_ms(client), job_keys(job.job_id)
        client.zadd(SUBMITTING, {job.job_id: now})
        _SUBMIT.call(client, [keys.record, keys.tombstone], _fields(job, ticket))
        _list(client, job.job_id, now)
        _enter_line(client, job.job_id)
    except redis.OutOfMemoryError as error:
        raise StoreFull(
            f"Redis is full, job {job.job_id} was not submitted: "
            "free memory or raise maxmemory, then submit again"
        ) from error


def resubmit_lost(client: redis.Redis, older_than_ms: int) -> list[str]:
    """Finish the submits that crashed on the way; the ids of jobs that are in the line now.

    What crashed before its record was written was never a job, and is forgotten.
    """
    found: Any = client.zrangebyscore(SUBMITTING, "-inf", now_ms(client) - older_than_ms)
    finished = []
    for member in found:
        job_id = member.decode()
        if _enter_line(client, job_id):
            finished.append(job_id)
    return finished


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
    fields = {
        "task": job.task,
        "model": job.model,
        "pool": job.pool,
        "label": job.label,
        "tenant": job.tenant,
        "priority": job.priority,
        "ticket": msgspec.json.encode(ticket),
        "message": job.message.dump(),
        "on_interrupt": job.terms.on_interrupt,
        "max_cost_micros": round((job.terms.max_cost_usd or 0) * 1_000_000),
    }
    deadline_ms = int((job.terms.deadline_s or 0) * 1000)
    return [deadline_ms, job.wait_ms, *(part for pair in fields.items() for part in pair)]


def _list(client: redis.Redis, job_id: str, now: int) -> None:
    client.zadd(JOBS, {job_id: now}, nx=True)
    found: Any = client.zrange(JOBS, 0, _PRUNED - 1)
    for oldest in found:
        if not client.exists(job_keys(oldest.decode()).record):
            client.zrem(JOBS, oldest)
