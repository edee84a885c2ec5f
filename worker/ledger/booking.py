"""From a job's record into the books of the day: each attempt once, whoever dies on the way.

What an attempt used is written into the job's record in the very step that ends the attempt. The
books are other keys, on another shard perhaps, so they follow: book, note it in the record, forget.
Whoever dies in between leaves the lease behind, and its next holder does the rest; `book.lua` knows
what was entered already.
Every function here only builds a call, `(script, keys, args)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from worker.ledger.spending import Spending
from worker.store.keys import ENTERED, books_key, job_keys
from worker.store.scripts import Call, script

#: The reply of `book` that asks for another look at the record.
STALE = -1

_ACCOUNT = script("worker.ledger", "account")
_BEGUN = script("worker.ledger", "begun")
_BOOK = script("worker.ledger", "book")
_BOOKED = script("worker.ledger", "booked")
_FORGET = script("worker.ledger", "forget")

#: What is counted, in the order of a row of the books.
QUANTITIES = ("attempts", "input", "cached", "output", "reasoning", "estimated")


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays for a job."""

    job_id: str
    task: str
    tenant: str


def account(job_id: str, upto: int, spent: Sequence[Spending]) -> Call:
    """Write down what earlier attempts have used."""
    pairs = [part for each in spent for part in (each.attempt, msgspec.json.encode(each))]
    return _ACCOUNT, [job_keys(job_id).record], [upto, *pairs]


def book(payer: Payer, spending: Spending, *, read_ms: int, kept_s: int) -> Call:
    """Answers 1 or 0 when it is in the books, and STALE when the job's record, read at `read_ms`,
    must be read again first."""
    keys = [books_key(day_of(spending.at_ms)), ENTERED]
    return _BOOK, keys, [_member(payer, spending), read_ms, kept_s, *_amounts(payer, spending)]


def begun(job_id: str, attempt: int, response_id: str) -> Call:
    """Note the provider's id of the stream this attempt reads."""
    return _BEGUN, [job_keys(job_id).record], [attempt, response_id]


def booked(job_id: str, upto: int) -> Call:
    """Note in the record that the books have everything up to attempt `upto`."""
    return _BOOKED, [job_keys(job_id).record], [upto]


def forget(payer: Payer, spending: Spending) -> Call:
    """Only after `booked`."""
    return _FORGET, [ENTERED], [_member(payer, spending)]


def unbooked(record: Mapping[bytes, bytes], upto: int) -> list[Spending]:
    """What a job's record has that the books may lack; see HGETALL."""
    done = int(record.get(b"booked", 0))
    found = (value for name, value in record.items() if name.startswith(b"spent:"))
    spent = (msgspec.json.decode(value, type=Spending) for value in found)
    return [each for each in spent if done < each.attempt <= upto]


def day_of(ms: int) -> str:
    """The UTC day of a moment, as the books name it."""
    return datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()


def _member(payer: Payer, spending: Spending) -> str:
    return f"{payer.job_id}/{spending.attempt}"


def _amounts(payer: Payer, spending: Spending) -> list[Any]:
    tokens = spending.tokens
    whole = tokens.input + tokens.output
    amounts = (
        *(1, tokens.input, tokens.cached, tokens.output, tokens.reasoning),
        whole if spending.estimated else 0,
    )
    who = [payer.tenant, spending.model, spending.key, payer.task, spending.wasted]
    pairs = zip(QUANTITIES, amounts, strict=True)
    return [
        part
        for name, amount in pairs
        if amount
        for part in (msgspec.json.encode([*who, name]), amount)
    ]
