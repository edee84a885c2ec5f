"""The operations of the page: its views, its forms, and what they load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from settings.errors import LongstreamError
from settings.model import SIMULATOR
from tasks import jobs
from tasks.gateway.callers import COOKIE
from tasks.gateway.jobs import listed, tenant_of, visible
from tasks.gateway.operations import Call, Handler, Operation, serves
from tasks.gateway.overview import accounts, queues_for
from tasks.gateway.page.diffs import Change, changes_of
from tasks.gateway.page.rendering import rendered
from tasks.gateway.page.story import Story, story_of
from tasks.gateway.problems import Problem, problem_of
from tasks.gateway.shapes import Listing
from tasks.gateway.tokens import Scope
from worker.job.records import Record, State
from worker.ledger.totals import shown as cost_shown
from worker.log.stored import read_stored
from worker.outcomes import Outcome
from worker.store.connections import opened
from worker.store.keys import job_keys

#: Jobs of one page of the list, and of the line.
_LISTED, _WAITING = 25, 10
_FORM_BYTES = 1_000_000
_ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Shown(msgspec.Struct, forbid_unknown_fields=True, rename={"behind": "after"}):
    """What the list shows; an empty field of the form is none."""

    state: str = ""
    outcome: str = ""
    behind: str = ""


def _page(call: str, scope: Scope | None, **declared: Any) -> Callable[[Handler], Operation]:
    return serves(call, "", scope, described=False, **declared)


@_page("GET /", None, query=Shown)
async def _home(call: Call) -> Response:
    if (stranger := _stranger(call)) is not None:
        return stranger
    query: Shown = call.query
    chosen = {"state": query.state, "outcome": query.outcome, "after": query.behind}
    wanted = {name: value for name, value in chosen.items() if value}
    try:
        found = await listed(call, msgspec.convert({**wanted, "limit": _LISTED}, Listing))
    except msgspec.ValidationError as error:
        raise Problem("malformed", f"query: {error}") from error
    admin = call.grant.allows(Scope.ADMIN)
    return rendered(
        "home.html",
        grant=call.grant,
        query=query,
        states=list(State),
        outcomes=list(Outcome),
        jobs=found.records,
        following=found.following,
        queues=await queues_for(call.grant, _WAITING),
        accounts=await accounts() if admin else None,
        may_submit=call.grant.allows(Scope.SUBMIT) and call.grant.job is None,
        simulated=call.settings.simulated,
    )


@_page("GET /view/{job}", None)
async def _job(call: Call) -> Response:
    if (stranger := _stranger(call)) is not None:
        return stranger
    try:
        record = await visible(call.grant, call.path("job"))
    except LongstreamError as error:
        return _failed(error)
    story, changes = await run_in_threadpool(_told, call, record)
    return rendered(
        "job.html",
        grant=call.grant,
        job=record,
        story=story,
        changes=changes,
        notes=record.result.get("notes", "") if isinstance(record.result, Mapping) else "",
        waiting=await _waiting(call, record),
        cost=cost_shown(record.cost) if record.cost is not None else "",
        may_cancel=call.grant.allows(Scope.CANCEL) and record.state is not State.ENDED,
        live=record.state is not State.ENDED or not story.ended,
        simulated=record.pool == SIMULATOR,
    )


def _told(call: Call, record: Record) -> tuple[Story, list[Change]]:
    with opened(call.settings.store_url) as client:
        stored = read_stored(client.execute_command, job_keys(record.id).log)
    changes: list[Change] = []
    if record.task == "tasks.refactor" and isinstance(record.result, Mapping):
        _, args, kwargs = jobs.arguments(record.id)
        given = args[0] if args else kwargs["files"]
        changes = changes_of(given, record.result)
    return story_of(stored), changes


async def _waiting(call: Call, record: Record) -> Any:
    """Its place in the line, while it has one among the first."""
    if record.state is not State.WAITING:
        return None
    lines = await queues_for(call.grant, 200)
    return next((job for line in lines for job in line.first if job.job == record.id), None)


@_page("POST /ask", Scope.SUBMIT)
async def _ask(call: Call) -> Response:
    tenant = tenant_of(call.grant, None)
    form = await _form(call)
    if not form.get("prompt", "").strip():
        raise Problem("invalid", "the prompt is empty: say what to answer")
    job = await run_in_threadpool(jobs.submit, "tasks.generate", form["prompt"], tenant=tenant)
    return RedirectResponse(f"/view/{job}", 303)


@_page("POST /view/{job}/cancel", Scope.CANCEL)
async def _cancel(call: Call) -> Response:
    record = await visible(call.grant, call.path("job"))
    await run_in_threadpool(jobs.cancel, record.id)
    return RedirectResponse(f"/view/{record.id}", 303)


@_page("GET /sign-in", None)
async def _sign_in_form(_: Call) -> Response:
    return rendered("sign_in.html", grant=None, refused=False)


@_page("POST /sign-in", None)
async def _sign_in(call: Call) -> Response:
    text = (await _form(call)).get("token", "").strip()
    callers = call.request.app.state.callers
    try:
        await callers.require_token(call.request.scope, text, call.request.app.state.hub)
    except Problem as problem:
        return rendered("sign_in.html", problem.status, grant=None, refused=True)
    answer = RedirectResponse("/", 303)
    secure = call.request.url.scheme == "https"
    answer.set_cookie(COOKIE, text, httponly=True, samesite="strict", secure=secure)
    return answer


@_page("POST /sign-out", None)
async def _sign_out(_: Call) -> Response:
    answer = RedirectResponse("/sign-in", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@_page("GET /assets/{name}", None)
async def _asset(call: Call) -> Response:
    name = call.path("name")
    if name not in _ASSETS:
        raise Problem("not_found")
    body = (files("tasks.gateway.page") / "assets" / name).read_bytes()
    return Response(body, headers={"Cache-Control": "no-cache"}, media_type=_ASSETS[name])


def _stranger(call: Call) -> Response | None:
    """Where somebody goes who may not read."""
    if call.grant.allows(Scope.READ):
        return None
    return RedirectResponse("/sign-in", 303)


def _failed(error: LongstreamError) -> Response:
    problem = problem_of(error)
    return rendered("problem.html", problem.status, grant=None, problem=problem)


async def _form(call: Call) -> dict[str, str]:
    body = await call.request.app.state.bodies.received(call.request, _FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError as error:
        raise Problem("malformed", "the form can not be read") from error


OPERATIONS = (_home, _job, _cancel, _ask, _sign_in_form, _sign_in, _sign_out, _asset)
