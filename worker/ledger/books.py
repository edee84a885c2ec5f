"""The books as they are stored: a hash for each UTC day."""

from __future__ import annotations

from datetime import date, timedelta

import redis

from worker.ledger.totals import Row, rows_of
from worker.store.keys import books_key


def read(client: redis.Redis, first: date, last: date) -> list[Row]:
    """The books of these days, both included."""
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    pipeline = client.pipeline(transaction=False)
    for day in days:
        pipeline.hgetall(books_key(day.isoformat()))
    found: list[Row] = []
    for day, books in zip(days, pipeline.execute(), strict=True):
        found += rows_of(day.isoformat(), books)
    return found
