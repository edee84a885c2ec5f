"""Who waits for what, and what is left of the limits."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tasks import jobs
from tasks.gateway.access import Grant
from tasks.gateway.jobs import json_of
from tasks.gateway.operations import Call, serves
from tasks.gateway.tokens import Scope
from worker.admission.overview import AccountView
from worker.admission.waiting import Queue


class Line(msgspec.Struct, forbid_unknown_fields=True):
    count: Annotated[int, Meta(ge=1, le=200)] = 20


async def queues_for(grant: Grant, count: int) -> list[Queue]:
    """The lines, with those of their first jobs that the caller may see."""

    def seen(queue: Queue) -> Queue:
        first = [
            waiting
            for waiting in queue.first
            if grant.tenant in (None, waiting.tenant) and grant.job in (None, waiting.job)
        ]
        return msgspec.structs.replace(queue, first=tuple(first))

    return [seen(queue) for queue in await run_in_threadpool(jobs.queues, count)]


async def accounts() -> list[AccountView]:
    return await run_in_threadpool(jobs.accounts)


@serves(
    "GET /queue",
    "The waiting line of every pool",
    Scope.READ,
    query=Line,
    replies={200: list[Queue]},
)
async def _queue(call: Call) -> Response:
    return json_of(await queues_for(call.grant, call.query.count))


@serves(
    "GET /accounts",
    "Every account: what is left of its limits, what rests, and why",
    Scope.ADMIN,
    replies={200: list[AccountView]},
)
async def _accounts(_: Call) -> Response:
    return json_of(await accounts())


OPERATIONS = (_queue, _accounts)
