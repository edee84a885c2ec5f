"""Live logs over HTTP, as server-sent events that resume by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from settings.errors import LongstreamError
from tasks.gateway.frames import Frame, event
from tasks.gateway.jobs import visible
from tasks.gateway.many import Cursors, Many
from tasks.gateway.operations import Call, Header, serves
from tasks.gateway.problems import Problem, problem_of, unreachable
from tasks.gateway.streams import EventStream
from tasks.gateway.tokens import Scope
from worker.log.cursor import START, Cursor
from worker.log.hub import Reader, Shown, TooSlow

#: How long the store may take until the first word of a log, in seconds.
_PATIENCE_S = 10.0
_MOST_JOBS = 32
_LAST = Header("Last-Event-ID", "The id of the last event you have.", r"^[0-9a-f.,-]*$")


class One(msgspec.Struct, forbid_unknown_fields=True, rename={"start": "from"}):
    """`from`: the id of the last event you have; `Last-Event-ID` wins over it."""

    start: str = "0-0"
    view: Literal["clean", "raw"] = "clean"


@serves(
    "GET /jobs/{job}/events",
    "Follow a job's log from any point, live or late",
    Scope.READ,
    query=One,
    headers=(_LAST,),
    replies={200: "text/event-stream", 204: None},
    codes=("invalid_cursor", "expired", "trimmed", "too_many_readers"),
)
async def _events(call: Call) -> Any:
    state = call.request.app.state
    state.streams.require_room()
    record = await visible(call.grant, call.path("job"))
    start = Cursor.parse(call.request.headers.get("last-event-id") or call.query.start)
    reader: Reader[Frame] = state.hub.reader(record.id, start, raw=call.query.view == "raw")
    batches = reader.batches()
    first = await _first(batches)
    if start > START and first and first[0][1].last and first[0][0] == str(start):
        await batches.aclose()
        # What an EventSource takes for "do not come back".
        return Response(status_code=204)
    return EventStream(state.streams, call.grant, _one(first, batches), batches.aclose)


class Several(One, forbid_unknown_fields=True, kw_only=True):
    """`jobs`: their ids, separated by commas, 32 at most."""

    jobs: Annotated[str, Meta(min_length=1, max_length=5000)]


@serves(
    "GET /events",
    "Follow the logs of several jobs on one connection",
    Scope.READ,
    query=Several,
    headers=(_LAST,),
    replies={200: "text/event-stream", 204: None},
    codes=("unknown_job", "invalid_cursor", "too_many_readers"),
)
async def _events_of_many(call: Call) -> Any:
    state = call.request.app.state
    state.streams.require_room()
    asked = list(dict.fromkeys(call.query.jobs.split(",")))
    if len(asked) > _MOST_JOBS:
        raise Problem("malformed", f"{_MOST_JOBS} jobs at most on one connection")
    jobs = [(await visible(call.grant, job)).id for job in asked]
    given = call.request.headers.get("last-event-id") or call.query.start
    many = Many(state.hub, jobs, Cursors(jobs, given), raw=call.query.view == "raw")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            if await many.nothing_left():
                await many.close()
                return Response(status_code=204)
    except TimeoutError:
        await many.close()
        raise unreachable() from None
    return EventStream(state.streams, call.grant, many.events(), many.close)


async def _first(batches: Any) -> list[Shown[Frame]]:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            first: list[Shown[Frame]] = await anext(batches)
            return first
    except TimeoutError:
        raise unreachable() from None


async def _one(first: list[Shown[Frame]], batches: Any) -> AsyncGenerator[bytes, None]:
    try:
        yield _joined(first)
        async for batch in batches:
            yield _joined(batch)
    except TooSlow:
        return
    except LongstreamError as error:
        yield _problem_event(error)


def _joined(batch: list[Shown[Frame]]) -> bytes:
    if len(batch) == 1:
        return batch[0][1].whole
    return b"".join([frame.whole for _, frame in batch])


def _problem_event(error: LongstreamError) -> bytes:
    """The reader can not go on; a client that connects again gets the same as an answer."""
    return event("problem", problem_of(error).document())


OPERATIONS = (_events, _events_of_many)
