"""The job record: one hash per job, beside its log and outliving it.

Scripts write it; this file reads it. `message` is the Celery message that will be published when
the job is granted a lease; it holds the job's arguments, and nothing else in Redis does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from worker.ledger.spending import Spending
from worker.ledger.totals import Money
from worker.log.entries import Tokens


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its record tells it. Times are milliseconds of the server's clock."""

    id: str
    state: State
    task: str
    model: str
    pool: str
    label: str = ""
    tenant: str = ""
    priority: str = ""
    attempt: int = 0
    crashes: int = 0
    failures: int = 0
    worker: str = ""
    key: str = ""
    why: str = ""
    outcome: str = ""
    reason: str = ""
    length: int = 0
    usage: Tokens | None = None
    result: Any = None
    created_ms: int = 0
    started_ms: int = 0
    attempt_ms: int = 0
    ended_ms: int = 0
    cancel_ms: int = 0
    deadline_ms: int = 0
    max_cost_micros: int = 0
    #: Where the model was to be chosen: the rule that did, and what it would have been.
    rule: str = ""
    instead_of: str = ""
    #: The model that answered, when the job's own could not be had.
    served_by: str = ""
    due_ms: int = 0
    #: Up to which attempt `spent` is complete, and in the books of its day.
    accounted: int = 0
    booked: int = 0
    spent: tuple[Spending, ...] = ()
    #: What `spent` costs; filled in by who knows the prices.
    cost: Money | None = None
    #: What the rule has saved, in USD; None: there was no rule, or a price is unknown.
    saved_usd: float | None = None
    on_interrupt: str = "auto"


_INTEGERS = frozenset(name for name, kind in Record.__annotations__.items() if kind in ("int", int))
_JSON = frozenset({"usage", "result"})


def parse_record(job_id: str, raw: Mapping[bytes, bytes]) -> Record | None:
    """The record in the reply of HGETALL; None when there is none."""
    if not raw:
        return None
    values: dict[str, Any] = {"id": job_id, "spent": _spent(raw)}
    for name, value in raw.items():
        field = name.decode()
        if field in _INTEGERS:
            values[field] = int(value)
        elif field in _JSON:
            values[field] = msgspec.json.decode(value)
        elif field in Record.__struct_fields__:
            values[field] = value.decode()
    return msgspec.convert(values, Record)


def _spent(raw: Mapping[bytes, bytes]) -> list[Spending]:
    fields = (value for name, value in raw.items() if name.startswith(b"spent:"))
    found = (msgspec.json.decode(value, type=Spending) for value in fields)
    return sorted(found, key=lambda spending: spending.attempt)
