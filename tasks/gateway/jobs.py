"""Jobs over HTTP: submit, list, show, cancel, and what became of them."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tasks import jobs
from tasks.edits.paths import lexical_problem
from tasks.gateway.access import Grant
from tasks.gateway.operations import Call, Header, serves
from tasks.gateway.problems import Problem
from tasks.gateway.shapes import (
    Cancelled,
    Generate,
    Job,
    Jobs,
    Listing,
    Refactor,
    Result,
)
from tasks.gateway.tokens import Scope
from worker.errors import UnknownJob
from worker.job.listing import Page, Position, page
from worker.job.records import Record, State
from worker.job.terms import Terms
from worker.store.connections import opened


def shown(record: Record) -> Job:
    return msgspec.convert(record, Job, from_attributes=True)


async def visible(grant: Grant, job_id: str) -> Record:
    """The record of a job. Raises UnknownJob also when it is another's."""
    try:
        record = await run_in_threadpool(jobs.status, job_id)
    except UnknownJob:
        raise UnknownJob(f"no job {job_id}") from None
    if not grant.sees(record):
        raise UnknownJob(f"no job {job_id}")
    return record


@serves(
    "POST /jobs",
    "Submit a job",
    Scope.SUBMIT,
    body=Generate | Refactor,
    headers=(Header("Idempotency-Key", "The same key again is the same job.", "^.{1,255}$"),),
    replies={201: Job, 200: Job},
    codes=("key_reused", "store_full"),
)
async def _submit(call: Call) -> Response:
    asked: Generate | Refactor = call.body
    tenant = tenant_of(call.grant, asked.tenant)
    key = call.request.headers.get("idempotency-key")
    job_id = None if key is None else _id_of(tenant, key)
    task, args, kwargs = _arguments(asked)
    existed = job_id is not None and await run_in_threadpool(_exists, job_id)
    made = await run_in_threadpool(
        jobs.submit,
        task,
        *args,
        job_id=job_id,
        terms=Terms(on_interrupt=asked.on_interrupt, deadline_s=asked.deadline_s),
        tenant=tenant,
        priority=asked.priority,
        **kwargs,
    )
    if job_id is not None:
        # Also when it is new: another request may have come in between with the same key.
        await run_in_threadpool(_require_same, made, task, args, kwargs)
    record = await run_in_threadpool(jobs.status, made)
    headers = {"Location": f"/jobs/{made}"} | ({"Idempotency-Replayed": "true"} if existed else {})
    return json_of(shown(record), 200 if existed else 201, headers)


def tenant_of(grant: Grant, asked: str | None) -> str:
    """Whose job it will be. Raises Problem."""
    if grant.job is not None:
        raise Problem("forbidden", "the token is bound to one job")
    if asked is None:
        return grant.tenant or "default"
    if grant.tenant not in (None, asked):
        raise Problem("forbidden", "the token belongs to another tenant")
    return asked


def _id_of(tenant: str, key: str) -> str:
    """The same key of the same tenant is the same job, in every gateway."""
    if not 0 < len(key) <= 255:
        raise Problem("malformed", "an Idempotency-Key has 1 to 255 characters")
    return hashlib.sha256(f"{tenant}\0{key}".encode()).hexdigest()[:32]


def _arguments(asked: Generate | Refactor) -> tuple[str, list[Any], dict[str, Any]]:
    given = options_of(
        model=asked.model, effort=asked.effort, max_output_tokens=asked.max_output_tokens
    )
    if isinstance(asked, Refactor):
        for file in asked.files:
            if (problem := lexical_problem(file.path)) is not None:
                raise Problem("invalid", f"{file.path!r} {problem}")
        files = [{"path": file.path, "text": file.text} for file in asked.files]
        return "tasks.refactor", [files, asked.instruction], given
    given |= options_of(system=asked.system, inline_thinking=asked.inline_thinking or None)
    return "tasks.generate", [asked.prompt], given


def options_of(**options: Any) -> dict[str, Any]:
    """What was asked for; what was not is left to the task."""
    return {name: value for name, value in options.items() if value is not None}


def _exists(job_id: str) -> bool:
    try:
        jobs.status(job_id)
    except UnknownJob:
        return False
    return True


def _require_same(job_id: str, task: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    stored_task, stored_args, stored = jobs.arguments(job_id)
    # The default model was filled in when the job was submitted, and may be another now.
    same = {name: stored.get(name) for name in kwargs.keys() | (stored.keys() - {"model"})}
    if (stored_task, stored_args, same) != (task, args, kwargs):
        raise Problem("key_reused", "use a new Idempotency-Key for another request", job=job_id)


async def listed(call: Call, query: Listing) -> Page:
    """The page of the list that the caller may see. Raises CursorError."""

    def read() -> Page:
        behind = None if query.behind is UNSET else Position.parse(query.behind)
        with opened(call.settings.store_url) as client:
            return page(client, wanted, query.limit, behind)

    def wanted(job: Record) -> bool:
        return call.grant.sees(job) and query.wants(job)

    return await run_in_threadpool(read)


@serves(
    "GET /jobs",
    "List jobs, newest first",
    Scope.READ,
    query=Listing,
    replies={200: Jobs},
    codes=("invalid_cursor",),
)
async def _list(call: Call) -> Response:
    found = await listed(call, call.query)
    following = None if found.following is None else str(found.following)
    return json_of(Jobs([shown(record) for record in found.records], following))


@serves("GET /jobs/{job}", "Show a job", Scope.READ, replies={200: Job})
async def _show(call: Call) -> Response:
    return json_of(shown(await visible(call.grant, call.path("job"))))


@serves(
    "GET /jobs/{job}/result",
    "What became of a job",
    Scope.READ,
    replies={200: Result},
    codes=("not_ended",),
)
async def _result(call: Call) -> Response:
    record = await visible(call.grant, call.path("job"))
    if record.state is not State.ENDED:
        raise Problem("not_ended", f"it is {record.state}", state=record.state)
    return json_of(
        Result(id=record.id, outcome=record.outcome, reason=record.reason, result=record.result)
    )


@serves(
    "POST /jobs/{job}/cancel",
    "Cancel a job, waiting or running",
    Scope.CANCEL,
    replies={202: Cancelled},
)
async def _cancel(call: Call) -> Response:
    record = await visible(call.grant, call.path("job"))
    done = await run_in_threadpool(jobs.cancel, record.id)
    return json_of(Cancelled(record.id, done.value), 202)


def json_of(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode(value)
    return Response(
        body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json"
    )


OPERATIONS = (_submit, _list, _show, _result, _cancel)
