"""The Python API: submit jobs, follow them, read what became of them, cancel them.

    from tasks import jobs

    job = jobs.submit("tasks.generate", "Why is the sky blue?")
    for item in jobs.tail(job):
        if isinstance(item, jobs.Text):
            print(item.text, end="")

With no Redis configured, all of this starts or joins the embedded stack.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

from settings.model import SIMULATOR
from tasks.current import current
from tasks.many import new_id, submit_many, wait
from tasks.stored import priced, record_of, store, unknown
from worker.errors import UnknownJob
from worker.job.records import Record, State, parse_record
from worker.job.terms import OnInterrupt, Terms
from worker.log import reader
from worker.log.cursor import START, Cursor
from worker.log.view import Attempt, Cut, End, Followed, Note, Status, Superseded, Text, Thinking
from worker.store.connections import connect_async
from worker.store.keys import JOBS, job_keys

if TYPE_CHECKING:
    from worker.admission.overview import AccountView
    from worker.admission.waiting import Queue
    from worker.job.cancel import Cancelled
    from worker.job.routing import Choice
    from worker.ledger.totals import By, Sum
    from worker.log.verify import Verdict

__all__ = [
    "Attempt",
    "Cut",
    "End",
    "Followed",
    "Note",
    "OnInterrupt",
    "Record",
    "State",
    "Status",
    "Superseded",
    "Terms",
    "Text",
    "Thinking",
    "accounts",
    "arguments",
    "atail",
    "cancel",
    "enable",
    "find",
    "queues",
    "recent",
    "result",
    "route",
    "simulated",
    "spend",
    "status",
    "submit",
    "submit_many",
    "tail",
    "verify",
    "wait",
]


#: Of the ids that begin alike, so many are named.
_NAMED = 5


def submit(
    task: str,
    *args: Any,
    job_id: str | None = None,
    terms: Terms | None = None,
    tenant: str = "default",
    priority: str = "normal",
    chosen: Choice | None = None,
    **kwargs: Any,
) -> str:
    """Submit a job and return its id. The same `job_id` again is the same job, so a submit that may
    or may not have arrived can be repeated.

    Tenants share what there is evenly, however many jobs each has waiting; `priority` is urgent,
    normal or bulk, and stands above that. `chosen` is what `route` answered for several jobs that
    are to have one model.

    Raises LongstreamError when the request can not be built, stored or served.
    """
    from tasks.kinds import KINDS
    from tasks.submitting import submitted, submitted_by_celery
    from worker.job.submitting import submit as submit_job
    from worker.ledger.allowed import refuse_spent
    from worker.store.connections import now_ms

    job_id = job_id or new_id()
    options: Any = {"terms": terms, "tenant": tenant, "priority": priority}
    if task not in KINDS:
        return submitted_by_celery(task, args, kwargs, job_id=job_id, **options)
    job = submitted(current(), task, args, kwargs, job_id=job_id, chosen=chosen, **options)
    with store() as client:
        refuse_spent(client, current(), tenant, now_ms(client))
        submit_job(client, job)
    return job_id


def tail(job_id: str, start: Cursor | str = START, *, raw: bool = False) -> Iterator[Followed]:
    """Everything behind a cursor, then what comes, until the job's end.

    Raises UnknownJob, LogExpired or CursorError. Stopping to read never stops the job.
    """
    with store() as client:
        yield from reader.tail(client, job_id, _cursor(start), raw=raw)


async def atail(
    job_id: str, start: Cursor | str = START, *, raw: bool = False
) -> AsyncIterator[Followed]:
    """As `tail`, on an event loop."""
    client = connect_async(current().store_url)
    try:
        async for item in reader.atail(client, job_id, _cursor(start), raw=raw):
            yield item
    finally:
        await client.aclose()


def status(job_id: str) -> Record:
    """The job's record. Raises UnknownJob."""
    with store() as client:
        return priced(record_of(client, job_id))


def route(task: str, *args: Any, **kwargs: Any) -> Choice:
    """Which model a job of these arguments would get, and why; nothing is submitted.

    Raises LongstreamError when the request can not be built.
    """
    from tasks.submitting import routed

    return routed(current(), task, args, kwargs)


def spend(by: By, first: date, last: date, *, tenant: str | None = None) -> list[Sum]:
    """What was spent from one UTC day to another, both included, added up `by`."""
    from worker.ledger import books, totals

    with store() as client:
        rows = books.read(client, first, last)
    mine = (row for row in rows if tenant is None or row.tenant == tenant)
    return totals.grouped(mine, by, current())


def result(job_id: str) -> Any:
    """The result of a job that completed; None when it has not. Raises UnknownJob."""
    return status(job_id).result


def simulated(job_id: str) -> bool:
    """True when the simulator answers the job, whatever keys this process knows."""
    with store() as client:
        return record_of(client, job_id).pool == SIMULATOR


def arguments(job_id: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The task's name and what it was called with. Raises UnknownJob."""
    from worker.messages.message import Message

    with store() as client:
        stored: Any = client.hmget(job_keys(job_id).record, "task", "message")
    if stored[0] is None:
        raise unknown(job_id)
    args, kwargs, _ = Message.load(stored[1]).body
    return stored[0].decode(), args, kwargs


def cancel(job_id: str) -> Cancelled:
    """Cancel a job, waiting or running. Raises UnknownJob."""
    from tasks.application import app
    from worker.job.cancel import cancel as cancel_job

    with store() as client:
        return cancel_job(app, client, current(), job_id)


def verify(job_id: str) -> Verdict:
    """Reckon the job's log again: what was changed, lost, repeated or moved, by entry.

    Raises UnknownJob, or LogExpired when there is nothing left to check.
    """
    from worker.log.stored import read_stored
    from worker.log.verify import verify as verify_log

    with store() as client:
        record = record_of(client, job_id)
        stored = read_stored(client.execute_command, job_keys(job_id).log)
    ended = record.state == State.ENDED
    if ended and not stored:
        raise reader.LogExpired(f"the log of job {job_id} is past retention: nothing to verify")
    return verify_log(stored, ended=ended, attempts=record.attempt)


def recent(count: int = 20) -> list[Record]:
    """The latest jobs, newest first."""
    with store() as client:
        found: Any = client.zrevrange(JOBS, 0, count - 1)
        pipeline = client.pipeline(transaction=False)
        for job_id in found:
            pipeline.hgetall(job_keys(job_id.decode()).record)
        raws = pipeline.execute()
    records = (parse_record(i.decode(), raw) for i, raw in zip(found, raws, strict=True))
    return [priced(record) for record in records if record is not None]


def queues(count: int = 20) -> list[Queue]:
    """The waiting line of every pool, with its first jobs."""
    from worker.admission import waiting

    with store() as client:
        return waiting.queues(client, current(), count)


def accounts() -> list[AccountView]:
    """Every account: what is left of its limits, what is in use, what rests and why."""
    from worker.admission import overview

    with store() as client:
        return overview.accounts(client, current())


def enable(alias: str) -> bool:
    """Use a key again that was out, and its account; False when nothing kept them out."""
    from worker.admission import overview

    with store() as client:
        return overview.enable(client, current(), alias)


def find(prefix: str, what: str = "job") -> str:
    """The one job whose id starts like this. Raises UnknownJob when none or several do, in words
    for whoever looks for `what`."""
    from worker.job.listing import starting_with

    if not prefix.strip():
        raise UnknownJob(f"no {what} is named: give its id, or the start of it")
    ids: set[str] = set()
    with store() as client:
        if client.exists(job_keys(prefix).record):
            return prefix
        for name in starting_with(client, prefix):
            ids.add(name)
            if len(ids) > _NAMED:
                break
    if not ids:
        raise unknown(prefix, what)
    if len(ids) > 1:
        named = sorted(ids)[:_NAMED]
        more = ", and more" if len(ids) > _NAMED else ""
        raise UnknownJob(f"{prefix} is the start of several job ids: {', '.join(named)}{more}")
    return ids.pop()


def _cursor(start: Cursor | str) -> Cursor:
    return Cursor.parse(start) if isinstance(start, str) else start
