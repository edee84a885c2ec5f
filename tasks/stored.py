"""The store that this process's settings name, and the records in it with their cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.current import current
from tasks.edits.paths import shown
from worker.errors import UnknownJob
from worker.job.records import Record, parse_record
from worker.store.connections import opened
from worker.store.keys import job_keys

if TYPE_CHECKING:
    import redis


@contextmanager
def store() -> Iterator[redis.Redis]:
    """Raises StoreUnreachable when it is away."""
    with opened(current().store_url) as client:
        yield client


def unknown(job_id: str, what: str = "job") -> UnknownJob:
    return UnknownJob(f"no {what} {shown(job_id)}: `longstream jobs` lists those that are known")


def record_of(client: redis.Redis, job_id: str) -> Record:
    """Raises UnknownJob."""
    raw: Any = client.hgetall(job_keys(job_id).record)
    record = parse_record(job_id, raw)
    if record is None:
        raise unknown(job_id)
    return record


def priced(record: Record) -> Record:
    """The record with what its job costs so far, by the prices of this process."""
    import msgspec

    from worker.ledger.totals import money_of, saved_by

    if not record.spent:
        return record
    money = money_of(record.spent, current())
    saved = saved_by(record.spent, record.instead_of, current()) if record.instead_of else None
    return msgspec.structs.replace(record, cost=money, saved_usd=saved)
