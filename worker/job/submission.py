"""What is submitted: a job with its message, its terms and its place among others. Pure."""

from __future__ import annotations

import msgspec

from settings.errors import LongstreamError
from settings.model import Settings, Tracing
from worker.admission.estimates import pool_taking
from worker.admission.tickets import CLASSES, UNKNOWN, Estimate, Ticket
from worker.job.routing import Choice
from worker.job.terms import USUAL, Terms
from worker.ledger.allowed import refuse_unpriced
from worker.messages.message import Message
from worker.seeing.tracing import Attributes

#: Where nobody looks.
UNTRACED = Tracing()

_TENANT_CHARS = 200


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    task: str
    model: str
    pool: str
    label: str
    message: Message
    estimate: Estimate = UNKNOWN
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

    def ticket(self) -> Ticket:
        """What the line must know of the job. Raises LongstreamError."""
        if self.priority not in CLASSES:
            raise LongstreamError(
                f"unknown priority {self.priority!r}: it is one of {', '.join(CLASSES)}"
            )
        if not 0 < len(self.tenant) <= _TENANT_CHARS:
            raise LongstreamError(f"a tenant's name has 1 to {_TENANT_CHARS} characters")
        return Ticket(
            tenant=self.tenant,
            priority=self.priority,
            weight=self.weight,
            model=self.model,
            kind=f"{self.task} {self.model} {self.estimate.effort}",
            prompt=self.estimate.prompt,
            cap=self.estimate.cap,
        )


def submission_of(
    settings: Settings,
    message: Message,
    chosen: Choice,
    size: Estimate,
    *,
    label: str,
    tenant: str,
    priority: str,
    terms: Terms,
    wait_ms: int = 0,
) -> Submission:
    """The job a message asks for, by the model chosen for it. Raises LongstreamError when no key
    can ever take it, and when a budget must know its cost and nobody does."""
    refuse_unpriced(settings, chosen.model, tenant, terms)
    return Submission(
        job_id=message.headers["id"],
        task=message.headers["task"],
        model=chosen.model,
        pool=pool_taking(settings, chosen.model, size).name,
        label=label,
        message=message,
        estimate=size,
        tenant=tenant,
        weight=settings.weight_of(tenant),
        priority=priority,
        wait_ms=wait_ms,
        terms=terms,
        rule=chosen.rule,
        instead_of=chosen.instead_of,
        tracing=settings.tracing,
    )
