"""What an attempt is given, how it is stopped, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from settings.model import Key
from worker.admission.line import Lease
from worker.attempt.reading import Reading
from worker.log.claim import Claim
from worker.log.entries import Mode
from worker.outcomes import Outcome
from worker.upstream.failures import UpstreamFailure
from worker.upstream.request import Request


class Stop(Enum):
    """Why a stream is told to stop from outside."""

    CANCEL = "cancel"
    DRAIN = "drain"
    LOST = "lost"
    DEADLINE = "deadline"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Sealed:
    """The job ended, now or before; `result` is what the task returns."""

    outcome: Outcome
    reason: str
    result: Any


@dataclass(frozen=True, slots=True)
class Yielded:
    """The job is not ended, and not this attempt's any more."""

    reason: str


Verdict = Sealed | Yielded


@dataclass(frozen=True, slots=True)
class Work:
    """What a task brings: how to ask, and what to make of the answer."""

    lease: Lease
    build: Callable[[], Request]
    read: Callable[[], Reading]
    #: After this a job that has not begun does not begin any more.
    expires: datetime | None = None
    #: The span the attempt belongs to, as its message said.
    trace: str | None = None

    @classmethod
    def to_close(cls, lease: Lease) -> Work:
        """Of a job that is only sealed: nobody is asked anything."""
        return cls(lease=lease, build=_nothing, read=_nothing)


def _nothing() -> Any:
    raise AssertionError("a job that is only sealed is not run")


def ended_before(claim: Claim, work: Work, max_crashes: int) -> tuple[Outcome, str] | None:
    """Why a job must end without another stream; None: it goes on."""
    if claim.cancelled:
        return Outcome.CANCELLED, "cancelled"
    if claim.deadline_ms is not None and claim.deadline_ms <= 0:
        last = f"; last time: {claim.reason}" if claim.reason else ""
        return Outcome.EXPIRED, f"its deadline has passed{last}"
    if claim.attempt == 1 and work.expires is not None and datetime.now(UTC) >= work.expires:
        return Outcome.EXPIRED, "expired before it began"
    if claim.crashes >= max_crashes:
        died = ", ".join(claim.lost)
        return Outcome.FAILED, f"poison: its workers died {claim.crashes} times ({died})"
    if claim.mode is Mode.CLOSE:
        return Outcome.INTERRUPTED, claim.reason or "interrupted"
    return None


def words_of(failure: UpstreamFailure, key: Key | None, asked: Request | None = None) -> str:
    """The failure in one line, with the address where nobody was reached, and the way out where
    nobody serves the model."""
    if key is None:
        return str(failure)
    if failure.fault == "network":
        return f"{failure} ({urlsplit(key.base_url).netloc})"
    if failure.kind == "not_found" and asked is not None:
        return (
            f"{str(failure).rstrip('.')}; key {key.alias} does not serve the model "
            f"{asked.model}; `longstream keys check --json` lists what it serves, models = "
            "[...] of its pool says what is sent there"
        )
    return str(failure)
