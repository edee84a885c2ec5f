"""What jobs look like over HTTP: the bodies that are taken, and those that are given."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from worker.job.records import Record, State
from worker.job.terms import OnInterrupt
from worker.ledger.totals import Money
from worker.log.entries import Tokens
from worker.outcomes import Outcome

#: What says something: not only spaces.
Words = Annotated[str, Meta(pattern=r"\S")]
Text = Annotated[str, Meta(min_length=1)]
_Tenant = Annotated[str, Meta(min_length=1, max_length=200)]
_Deadline = Annotated[float, Meta(gt=0, le=86_400 * 30)]
_Priority = Literal["urgent", "normal", "bulk"]


class _Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every job may say of itself."""

    model: Text | None = None
    effort: Text | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    #: Of a token that is bound to no tenant.
    tenant: _Tenant | None = None
    priority: _Priority = "normal"
    on_interrupt: OnInterrupt = OnInterrupt.AUTO
    deadline_s: _Deadline | None = None


class Generate(_Asked, tag="generate"):
    """A prompt in, text out."""

    prompt: Words
    system: str | None = None
    inline_thinking: bool = False


class File(msgspec.Struct, forbid_unknown_fields=True):
    path: Text
    text: str


class Refactor(_Asked, tag="refactor"):
    """Files and an instruction in, changed files out."""

    files: Annotated[list[File], Meta(min_length=1, max_length=1000)]
    instruction: Words


class Job(msgspec.Struct, kw_only=True):
    """A job as its record tells it, without its result. Times are in milliseconds since 1970."""

    id: str
    state: State
    outcome: str
    reason: str
    label: str
    task: str
    model: str
    tenant: str
    priority: str
    attempt: int
    key: str
    length: int
    usage: Tokens | None
    #: What it costs so far, by the prices the gateway knows; not in lists.
    cost: Money | None
    created_ms: int
    started_ms: int
    ended_ms: int
    cancel_ms: int
    deadline_ms: int


class Listing(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename={"behind": "after"}):
    """`after`: the `next` of the page before. What is not given is unset and not null, for `null`
    in a query is a word like any other."""

    state: State | UnsetType = UNSET
    outcome: Outcome | UnsetType = UNSET
    task: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    priority: _Priority | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    behind: str | UnsetType = UNSET

    def wants(self, job: Record) -> bool:
        names = ("state", "outcome", "task", "model", "tenant", "priority")
        return all(getattr(self, name) in (UNSET, getattr(job, name)) for name in names)


class Jobs(msgspec.Struct):
    """`next`: give it as `after` for the next page; null at the end."""

    jobs: list[Job]
    next: str | None


class Result(msgspec.Struct, kw_only=True):
    """What became of a job. `result` is the text of a `generate`, and of a `refactor` the files
    and notes; null when the job did not complete."""

    id: str
    outcome: str
    reason: str
    result: Any


class Cancelled(msgspec.Struct):
    id: str
    #: `stopping`: its worker was told, and seals the job.
    cancelled: Literal["cancelled", "stopping", "ended"]
