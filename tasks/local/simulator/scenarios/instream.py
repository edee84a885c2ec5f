"""Q25-Q31: errors inside a 200, in every shape that is sent, and events that are no object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tasks.local.simulator import chat, failures, framing, responses
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import DONE, Event, Shaping
from tasks.local.simulator.scenarios.moves import (
    first_half,
    interrupted,
    nothing,
    until_text,
)
from tasks.local.simulator.scenarios.scenario import Quirk, Wiring, natural
from tasks.local.simulator.steps import Ending, Script, Send

encode = msgspec.json.encode


def instead(payload: object, name: str = "") -> Shaping:
    """An error before any text, and then what looks like an ordinary end."""

    def shape(ask: Ask, answer: Answer) -> Iterator[Event]:
        yield from until_text(natural(ask, answer))
        yield Event(data=encode(payload), name=name)
        if ask.dialect == "chat":
            yield Event(data=DONE)

    return shape


def amid(payload: object, name: str = "") -> Wiring:
    """An error after half of the text, and a clean end."""

    def wire(_ask: Ask, events: Iterable[Event]) -> Script:
        yield framing.SSE
        yield from first_half(events)
        yield Send(data=framing.framed(Event(data=encode(payload), name=name)))

    return wire


def beside_choices(ask: Ask, answer: Answer) -> Iterator[Event]:
    """An error in a chunk that looks like a chunk."""
    broken = {"choices": [], "error": {"message": "Simulated provider error.", "code": 502}}
    yield from until_text(natural(ask, answer))
    yield Event(data=encode(chat.envelope(ask) | broken))
    yield Event(data=DONE)


def failed(code: str, message: str) -> Wiring:
    """`response.failed`, and a connection that stays open."""

    def wire(ask: Ask, events: Iterable[Event]) -> Script:
        yield framing.SSE
        seen = list(first_half(events))
        yield from seen
        error = {"code": code, "message": message}
        response = responses.snapshot(ask, "failed", error=error)
        number = sum(isinstance(step, Send) for step in seen)
        fields = {"response": response, "sequence_number": number}
        data = encode({"type": "response.failed"} | fields)
        yield Send(data=framing.framed(Event(data=data, name="response.failed")))
        yield Ending.HANG

    return wire


def overloaded(_ask: Ask, _events: Iterable[Event]) -> Script:
    return failures.body(encode(_OVERLOADED), status=529)


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message} | more}


_OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
_FLAT = {
    "type": "error",
    "code": "server_error",
    "message": "Simulated server error.",
    "param": None,
    "sequence_number": 7,
}
_NESTED = {
    "type": "error",
    "error": {"type": "server_error", "code": "server_error", "message": "Simulated."},
    "sequence_number": 7,
}

SCENARIOS = (
    Quirk(
        name="sim:q25-error-object",
        does="An error object instead of text, then `[DONE]`.",
        dialect="chat",
        answer=nothing,
        shape=instead(_error("quota exceeded")),
    ),
    Quirk(
        name="sim:q25-error-text",
        does='`{"error": "text"}` instead of text, then `[DONE]`.',
        dialect="chat",
        answer=nothing,
        shape=instead({"error": "Simulated failure, told as a string."}),
    ),
    Quirk(
        name="sim:q25-error-with-choices",
        does="An error in a chunk that has `choices: []` too.",
        dialect="chat",
        answer=nothing,
        shape=beside_choices,
    ),
    Quirk(
        name="sim:q25-error-amid-text",
        does="An error object after half of the text, then a clean end.",
        dialect="chat",
        wire=amid(_error("Simulated upstream failure.", type="server_error")),
    ),
    Quirk(
        name="sim:q26-code-only",
        does="A rate limit told by its string code alone.",
        dialect="chat",
        answer=nothing,
        shape=instead(_error("rate limited", code="rate_limit_exceeded")),
    ),
    Quirk(
        name="sim:q26-numeric-code",
        does="A rate limit told by the number 429 alone.",
        dialect="chat",
        answer=nothing,
        shape=instead(_error("slow down", code=429)),
    ),
    Quirk(
        name="sim:q27-flat-error",
        does="A Responses error event with its fields at the top.",
        dialect="responses",
        wire=amid(_FLAT, "error"),
    ),
    Quirk(
        name="sim:q27-nested-error",
        does="A Responses error event with its fields under `error`.",
        dialect="responses",
        wire=amid(_NESTED, "error"),
    ),
    Quirk(
        name="sim:q28-object-error",
        does='`{"object": "error", ...}` as vLLM sends it.',
        dialect="chat",
        answer=nothing,
        shape=instead({"object": "error", "message": "Simulated bad request.", "code": 400}),
    ),
    Quirk(
        name="sim:q28-message-twice",
        does="An error object with the message beside it, as LM Studio sends it.",
        dialect="chat",
        answer=nothing,
        shape=instead(_error("Compute error.") | {"message": "Compute error."}, "error"),
    ),
    Quirk(
        name="sim:q28-detail",
        does='`{"detail": ...}`, as a web framework sends it.',
        dialect="chat",
        answer=nothing,
        shape=instead({"detail": "Simulated internal error."}),
    ),
    Quirk(
        name="sim:q29-failed-rate-limit",
        does="`response.failed` with a delay in its text; the connection stays open.",
        dialect="responses",
        wire=failed("rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s."),
    ),
    Quirk(
        name="sim:q29-failed-server-error",
        does="`response.failed` with `server_error`; the connection stays open.",
        dialect="responses",
        wire=failed("server_error", "Simulated server error."),
    ),
    Quirk(
        name="sim:q30-overloaded-amid-text",
        does="`overloaded_error` after half of the text.",
        wire=amid(_OVERLOADED, "error"),
    ),
    Quirk(
        name="sim:q30-529",
        does="529 before any header of a stream.",
        answer=nothing,
        wire=overloaded,
    ),
    Quirk(
        name="sim:q31-null",
        does="`data: null` between events.",
        wire=interrupted(b"data: null\n\n"),
    ),
    Quirk(
        name="sim:q31-no-object",
        does="`data: []` and `data: 1` between events.",
        wire=interrupted(b"data: []\n\n", b"data: 1\n\n"),
    ),
)
