"""Submitting a job: its record, then its place in the line. Each step is safe to repeat.

The order matters: a record without a place is a job that waits until its submit is repeated or a
worker finds the note that it had begun; a place without a record would be granted to a worker that
cannot know what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import redis
from redis.exceptions import NoScriptError

from settings.errors import LongstreamError
from worker.admission import line
from worker.admission.tickets import Ticket
from worker.job.submission import Submission
from worker.seeing.tracing import submitting
from worker.store.connections import now_ms
from worker.store.keys import DEADLINES, JOB_ID_SHAPE, JOBS, SUBMITTING, is_job_id, job_keys
from worker.store.scripts import Call, script

_NOTE = script("worker.log", "note")
_SUBMIT = script("worker.log", "submit")

#: How many of the oldest index members one submit looks at; two a submit outrun their arrival.
_PRUNED = 2

#: What a record says of its job's place in the line.
_PLACE = ("state", "pool", "ticket", "due_ms")

#: The states of a job that has not ended.
_GOES_ON = (b"waiting", b"running")

#: A command, or the call of a script.
Step = list[Any] | Call


class StoreFull(LongstreamError):
    """Redis refuses writes; the job was not submitted."""


#: How many jobs are looked at in one round trip.
_PAGE = 500


class Found(msgspec.Struct, frozen=True):
    """`entered`: jobs that are in the line now and were not; `cancelled`: jobs whose cancel did not
    come to its end, and whose notes stay until somebody has brought it there."""

    entered: tuple[str, ...]
    cancelled: tuple[str, ...]
    #: There may be more of them.
    more: bool = False


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


def _checked(job: Submission) -> Ticket:
    if not is_job_id(job.job_id):
        raise LongstreamError(f"not a job id: {job.job_id!r}; {JOB_ID_SHAPE}")
    return job.ticket()


def _write(client: redis.Redis, jobs: Sequence[Submission], tickets: Sequence[Ticket]) -> None:
    """Three round trips. What was noted first is forgotten last, so a crash anywhere is found."""
    steps: list[Step] = []
    for job, ticket in zip(jobs, tickets, strict=True):
        keys = job_keys(job.job_id)
        steps.append(_NOTE.whole([SUBMITTING], [job.job_id, 0]))
        steps.append((_SUBMIT, [keys.record, keys.tombstone], _fields(job, ticket)))
        steps.append(_NOTE.whole([JOBS], [job.job_id, _PRUNED * len(jobs)]))
    limited = [[job.job_id, 0, _deadline_ms(job)] for job in jobs if _deadline_ms(job)]
    noted: list[Step] = [_NOTE.whole([DEADLINES], each) for each in limited]
    replies = _together(client, [*noted, *steps])[len(noted) :]
    names = [job.job_id for job in jobs]
    oldest = [old.decode() for old in replies[-1]]
    there = [["EXISTS", job_keys(old).record] for old in oldest]
    _, exist = _enter(client, dict(zip(names, replies[1::3], strict=True)), there)
    gone = [old for old, exists in zip(oldest, exist, strict=True) if not exists]
    forget: list[Step] = [["ZREM", SUBMITTING, *names]]
    _together(client, [*forget, *([["ZREM", JOBS, *gone]] if gone else [])])


def _enter(
    client: redis.Redis, recorded: Mapping[str, Sequence[Any]], beside: Sequence[Step] = ()
) -> tuple[list[str], list[Any]]:
    """Put recorded jobs into the line: those that were not there before, and wait; and the replies
    to what was asked beside."""
    waiting = {job_id: rest for job_id, (state, *rest) in recorded.items() if state == b"waiting"}
    steps: list[Step] = list(beside)
    for job_id, (pool, ticket, wait_ms) in waiting.items():
        its = msgspec.json.decode(ticket, type=Ticket)
        steps.append(line.enqueue(pool.decode(), job_id, its, wait_ms=wait_ms))
        steps.append(["HGET", job_keys(job_id).record, "state"])
    replies = _together(client, steps) if steps else []
    told = replies[len(beside) :]
    entered = []
    for (job_id, (pool, *_)), new, state in zip(
        waiting.items(), told[::2], told[1::2], strict=True
    ):
        if state == b"ended":
            # It ran and was settled between the two: nobody must come to run it once more.
            line.run(client, line.withdraw(pool.decode(), job_id))
        elif new == 1:
            entered.append(job_id)
    return entered, replies[: len(beside)]


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


def _called(step: Call, whole: bool) -> Sequence[Any]:
    made, keys, args = step
    return made.whole(keys, args) if whole else made.command(keys, args)


def sweep(client: redis.Redis, older_than_ms: int) -> Found:
    """Finish the submits that crashed on the way, and find the cancels.

    What crashed before its record was written was never a job, and is forgotten.
    """
    now = now_ms(client)
    # What began in the future began before the server's clock was set back.
    spans: Any = [("-inf", now - older_than_ms), (f"({now + older_than_ms}", "+inf")]
    noted: Any = [
        job
        for first, last in spans
        for job in client.zrangebyscore(SUBMITTING, first, last, 0, _PAGE)
    ]
    if not noted:
        return Found((), ())
    lost = [job.decode() for job in noted]
    read: list[Step] = [["HMGET", job_keys(job).record, "cancel_ms", *_PLACE] for job in lost]
    recorded, cancelled = {}, []
    for job, (asked_ms, state, pool, ticket, due_ms) in zip(
        lost, _together(client, read), strict=True
    ):
        if asked_ms is not None and state is not None:
            cancelled.append(job)
        else:
            # One that runs is held, and does not enter, unless the line has lost it.
            waits = b"waiting" if state == b"running" else state
            recorded[job] = (waits, pool, ticket, max(0, int(due_ms or 0) - now))
    entered, _ = _enter(client, recorded)
    if recorded:
        # Only now may be forgotten that their submits had begun.
        client.zrem(SUBMITTING, *recorded)
    return Found(tuple(entered), tuple(cancelled), len(lost) >= _PAGE)


def relist(client: redis.Redis, pool: str) -> int:
    """The store has lost the pool's line: note every job of it that has not ended, as if its submit
    had crashed; how many. Those that run are adopted by their workers before `sweep` looks."""
    listed: Any = client.zrange(JOBS, 0, -1)
    jobs, noted = [job.decode() for job in listed], 0
    for at in range(0, len(jobs), _PAGE):
        page = jobs[at : at + _PAGE]
        read: list[Step] = [["HMGET", job_keys(job).record, "state", "pool"] for job in page]
        told = zip(page, _together(client, read), strict=True)
        lost = [job for job, (state, its) in told if state in _GOES_ON and its == pool.encode()]
        _together(client, [_NOTE.whole([SUBMITTING], [job, 0]) for job in lost])
        noted += len(lost)
    return noted


def _deadline_ms(job: Submission) -> int:
    return int((job.terms.deadline_s or 0) * 1000)


def _fields(job: Submission, ticket: Ticket) -> list[Any]:
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
    return [_deadline_ms(job), job.wait_ms, *(part for pair in fields.items() for part in pair)]
