"""OpenAI's Responses, as far as a job goes: for clients that speak nothing else.

A response is a job: `resp_` and its id. Its events are numbered by the log's cursors, four numbers
an entry, so `starting_after` goes on from any of them, whatever was restarted meanwhile. The form
has no way to take text back: an answer that is restarted goes on without a seam as long as it comes
out the same, and ends as failed, code `restarted`, when it does not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from settings.errors import LongstreamError
from tasks import jobs
from tasks.gateway.frames import Frame, event
from tasks.gateway.jobs import json_of, options_of, tenant_of, visible
from tasks.gateway.operations import Call, serves
from tasks.gateway.problems import Problem, problem_of
from tasks.gateway.response_objects import PREFIX, message, part, response_of, snapshot
from tasks.gateway.shapes import Text, Words
from tasks.gateway.streams import Awaiting, EventStream
from tasks.gateway.tokens import Scope
from tasks.splice import Piece, Splice
from worker.job.records import Record
from worker.log.cursor import START, Cursor
from worker.log.hub import Hub, Reader, Shown, TooSlow

_EACH = 4
_COMMENT = b": heartbeat\n\n"
#: An object, or its events with `stream`.
_EITHER = ("application/json", "text/event-stream")


class Effort(msgspec.Struct, forbid_unknown_fields=True):
    effort: Text | None = None


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a message. Only text is understood."""

    text: Words
    type: Literal["input_text"] = "input_text"


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """One message of the input."""

    role: Literal["user", "system", "developer"]
    content: Words | Annotated[list[Part], Meta(min_length=1)]
    type: Literal["message"] = "message"

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n\n".join(part.text for part in self.content)


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """What of OpenAI's form is understood; anything else is refused and not left out in silence."""

    input: Words | list[Said]
    model: Text | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    reasoning: Effort | None = None
    stream: bool = False
    background: bool = False
    #: Everything is stored; what asks not to be is refused.
    store: Literal[True] = True


class Again(msgspec.Struct, forbid_unknown_fields=True):
    stream: bool = False
    starting_after: Annotated[int, Meta(ge=0, lt=2**53)] | None = None


def number_of(cursor: Cursor, part: int = 0) -> int:
    return ((cursor.attempt << 32) + cursor.seq) * _EACH + part


def cursor_of(number: int) -> Cursor:
    """The entry an event belongs to; those before the first entry begin the log."""
    entry = number // _EACH
    return Cursor(entry >> 32, entry & 0xFFFFFFFF) if entry else START


@serves(
    "POST /v1/responses",
    "Submit a job in the form of OpenAI's Responses",
    Scope.SUBMIT,
    body=Asked,
    replies={200: _EITHER},
    codes=("too_many_readers", "store_full"),
)
async def _create(call: Call) -> Any:
    asked: Asked = call.body
    if asked.stream or not asked.background:
        # Before the job is there: a client that is refused asks again, and means the same job.
        call.request.app.state.streams.require_room()
    prompt, system = _prompt_of(asked)
    given = options_of(
        model=asked.model,
        system=system,
        effort=asked.reasoning.effort if asked.reasoning else None,
        max_output_tokens=asked.max_output_tokens,
    )
    job = await run_in_threadpool(
        jobs.submit, "tasks.generate", prompt, tenant=tenant_of(call.grant, None), **given
    )
    record = await run_in_threadpool(jobs.status, job)
    if asked.stream:
        return _streamed(call, record, None)
    if not asked.background:
        record = await _at_its_end(call, record)
    return json_of(await response_of(record))


@serves(
    "GET /v1/responses/{response}",
    "A job as a response, or its events from any number on",
    Scope.READ,
    query=Again,
    replies={200: _EITHER},
    codes=("too_many_readers",),
)
async def _retrieve(call: Call) -> Any:
    record = await _known(call)
    if call.query.stream:
        call.request.app.state.streams.require_room()
        return _streamed(call, record, call.query.starting_after)
    return json_of(await response_of(record))


@serves(
    "POST /v1/responses/{response}/cancel",
    "Cancel a response",
    Scope.CANCEL,
    replies={200: "application/json"},
)
async def _cancel(call: Call) -> Response:
    record = await _known(call)
    await run_in_threadpool(jobs.cancel, record.id)
    return json_of(await response_of(await run_in_threadpool(jobs.status, record.id)))


async def _known(call: Call) -> Record:
    return await visible(call.grant, call.path("response").removeprefix(PREFIX))


async def _at_its_end(call: Call, record: Record) -> Record:
    """As it is when it has ended, or when nobody waits for that any more. Raises Problem."""
    state = call.request.app.state
    awaiting = Awaiting(state.streams, call.grant)
    ended = await awaiting.end_of(_read_to_end(state.hub, record.id), call.request.receive)
    if awaiting.is_cut and not ended and not state.streams.stopping:
        raise Problem("unauthorized", "the token was revoked, or has expired")
    return await run_in_threadpool(jobs.status, record.id)


async def _read_to_end(hub: Hub[Frame], job_id: str) -> None:
    start: Cursor | None = START
    while start is not None:
        start = await _read_on(hub.reader(job_id, start))


async def _read_on(reader: Reader[Frame]) -> Cursor | None:
    """Where a reader that was too slow goes on; None at the end."""
    try:
        async with aclosing(reader.batches()) as batches:
            async for _ in batches:
                pass
    except TooSlow as slow:
        return Cursor.parse(slow.cursor)
    return None


def _streamed(call: Call, record: Record, after: int | None) -> EventStream:
    state = call.request.app.state
    chunks = ResponseEvents(record, -1 if after is None else after).chunks(state.hub)
    return EventStream(state.streams, call.grant, chunks, heartbeat=_COMMENT, retry=b"")


class ResponseEvents:
    """The events of one response behind a number."""

    def __init__(self, record: Record, after: int) -> None:
        self._record = record
        self._after = after
        self._splice = Splice()
        self._item = f"msg_{record.id}"
        self._over = False

    async def chunks(self, hub: Hub[Frame]) -> AsyncGenerator[bytes, None]:
        yield b"".join(self._told(enumerate(self._opening())))
        reader = hub.reader(self._record.id, cursor_of(max(0, self._after)))
        try:
            async with aclosing(reader.batches()) as batches:
                async for batch in batches:
                    for chunk in await self.of(batch):
                        yield chunk
                    if self._over:
                        return
        except TooSlow:
            return
        except LongstreamError as error:
            yield _error_event(problem_of(error))

    async def of(self, batch: list[Shown[Frame]]) -> list[bytes]:
        """The events of some items of the clean log, in their order."""
        told: list[bytes] = []
        for cursor, frame in batch:
            if cursor is None or self._over:
                continue
            item = msgspec.json.decode(frame.data)
            if item["type"] == "cut":
                self._splice.cut(item["offset"])
            elif item["type"] == "text":
                told += self._text(
                    Cursor.parse(cursor), self._splice.text(item["offset"], item["text"])
                )
            elif item["type"] == "end":
                told += await self._end(Cursor.parse(cursor))
        return told

    def _text(self, cursor: Cursor, piece: Piece) -> Iterator[bytes]:
        if piece.rewind_to is not None:
            yield from self._failed(cursor)
        elif piece.text:
            delta = {"type": "response.output_text.delta", "delta": piece.text, **self._place()}
            yield from self._told([(number_of(cursor), delta)])

    async def _end(self, cursor: Cursor) -> Iterator[bytes]:
        if self._splice.end() is not None:
            return self._failed(cursor)
        self._over = True
        response = await response_of(await run_in_threadpool(jobs.status, self._record.id))
        text = response["output"][0]["content"][0]["text"] if response["output"] else ""
        item = message(self._item, "completed", [part(text)])
        kind = response["status"] if response["status"] in ("completed", "incomplete") else "failed"
        last = [
            {"type": "response.output_text.done", "text": text, **self._place()},
            {"type": "response.content_part.done", **self._place(), "part": part(text)},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": f"response.{kind}", "response": response},
        ]
        return self._told((number_of(cursor, part), each) for part, each in enumerate(last))

    def _opening(self) -> list[dict[str, Any]]:
        response = snapshot(self._record, "in_progress", "", None, None)
        place = {"output_index": 0, "item": message(self._item, "in_progress", [])}
        return [
            {"type": "response.created", "response": response},
            {"type": "response.in_progress", "response": response},
            {"type": "response.output_item.added", **place},
            {"type": "response.content_part.added", **self._place(), "part": part("")},
        ]

    def _failed(self, cursor: Cursor) -> Iterator[bytes]:
        self._over = True
        error = {"code": "restarted", "message": "the answer was restarted and came out different"}
        response = snapshot(self._record, "failed", "", None, error)
        failed = {"type": "response.failed", "response": response}
        return self._told([(number_of(cursor, _EACH - 1), failed)])

    def _told(self, events: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[bytes]:
        for number, each in events:
            if number > self._after:
                yield event(each["type"], {**each, "sequence_number": number})

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}


def _error_event(problem: Problem) -> bytes:
    message = problem.detail or problem.title
    return event("error", {**problem.document(), "type": "error", "message": message})


def _prompt_of(asked: Asked) -> tuple[str, str | None]:
    """The prompt and what stands before it. Raises Problem."""
    if isinstance(asked.input, str):
        return asked.input, asked.instructions
    rules = [said.text for said in asked.input if said.role != "user"]
    prompts = [said.text for said in asked.input if said.role == "user"]
    if len(prompts) != 1:
        raise Problem("invalid", "the input has one message of the user, and no conversation")
    given = [asked.instructions] if asked.instructions else []
    return prompts[0], "\n\n".join([*given, *rules]) or None


OPERATIONS = (_create, _retrieve, _cancel)
