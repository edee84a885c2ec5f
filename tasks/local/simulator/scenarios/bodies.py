"""Q17-Q24: a 200 that is no stream, a stream that is called something else, and redirects."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tasks.local.simulator import failures, framing
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.moves import Writes, nothing, over
from tasks.local.simulator.scenarios.scenario import Quirk, Wiring, wired
from tasks.local.simulator.steps import Framing, Head, Pause, Script, Send, Step
from tasks.local.simulator.whole import whole

HTML = (
    b"<!DOCTYPE html>\n<html><head><title>Access denied</title></head>\n"
    b"<body><h1>Simulated block page</h1><p>Your request was stopped.</p></body></html>\n"
)
GZIP, DEFLATE = 31, 15
#: Where "another origin" is: a name that resolves nowhere.
ELSEWHERE = "https://elsewhere.invalid"


def answered(data: bytes, content_type: str = "application/json") -> Wiring:
    """`data` with status 200, and nothing else."""
    return lambda _ask, _events: failures.body(data, content_type=content_type)


def not_streamed(ask: Ask, events: Iterable[Event]) -> Script:
    """The one object, although a stream was asked for."""
    return whole(ask, framing.stream(events), refusal=False)


def labelled(*headers: tuple[str, str]) -> Wiring:
    """An ordinary stream under other headers."""
    return over(lambda writes: writes, head=Head(headers=headers))


def empty(_ask: Ask, _events: Iterable[Event]) -> Script:
    yield framing.SSE


def no_content(_ask: Ask, _events: Iterable[Event]) -> Script:
    yield Head(status=204, framing=Framing.NONE)


def queued(writes: Writes) -> Iterator[Step]:
    """Empty lines while the request waits for its turn."""
    for _ in range(5):
        yield Pause(1.0)
        yield Send(data=b"\n")
    yield from writes


def compressed(encoding: str, pack: Callable[[list[bytes]], bytes]) -> Wiring:
    """The whole stream packed, and sent when the packer is done with it."""
    headers = (*framing.SSE.headers, ("content-encoding", encoding))

    def wire(_ask: Ask, events: Iterable[Event]) -> Script:
        steps = list(framing.writes(events))
        sends = [step for step in steps if isinstance(step, Send)]
        yield Head(headers=headers)
        yield from (step for step in steps if isinstance(step, Pause))
        packed = pack([send.data for send in sends])
        yield framing.merged(sends, packed)

    return wire


def packed(window: int) -> Callable[[list[bytes]], bytes]:
    """One member, without a flush inside."""

    def pack(parts: list[bytes]) -> bytes:
        packer = zlib.compressobj(wbits=window)
        return packer.compress(b"".join(parts)) + packer.flush()

    return pack


def members(parts: list[bytes]) -> bytes:
    """A gzip member for every write."""
    return b"".join(packed(GZIP)([part]) for part in parts)


def cut_gzip(_ask: Ask, events: Iterable[Event]) -> Script:
    """Half of the packed bytes; nobody can say how much of the text they hold."""
    data = packed(GZIP)([framing.framed(event) for event in events])
    yield Head(headers=(*framing.SSE.headers, ("content-encoding", "gzip")))
    yield Send(data=data[: len(data) // 2])


def redirect(status: int, origin: str = "") -> Wiring:
    """To the same path; a POST that follows is answered."""

    def wire(ask: Ask, events: Iterable[Event]) -> Script:
        if ask.query == "followed":
            return wired(ask, events)
        path = "/v1/chat/completions" if ask.dialect == "chat" else "/v1/responses"
        target = f"{origin}{path}?followed"
        return failures.body(b"{}", status=status, headers=(("location", target),))

    return wire


_JSON_ERROR = failures.error_body("Simulated quota exceeded.", "insufficient_quota")
_CODE_ERROR = msgspec.json.encode({"code": 429, "msg": "Simulated: too many requests."})
_NO_CACHE = ("cache-control", "no-cache")

SCENARIOS = (
    Quirk(
        name="sim:q17-html",
        does="200 with an HTML block page.",
        answer=nothing,
        wire=answered(HTML, "text/html"),
    ),
    Quirk(
        name="sim:q18-json-completion",
        does="One JSON object, although a stream was asked for.",
        wire=not_streamed,
    ),
    Quirk(
        name="sim:q19-json-error",
        does="200 with OpenAI's error object.",
        answer=nothing,
        wire=answered(_JSON_ERROR),
    ),
    Quirk(
        name="sim:q19-json-code",
        does='200 with `{"code": 429, "msg": ...}`.',
        answer=nothing,
        wire=answered(_CODE_ERROR),
    ),
    Quirk(
        name="sim:q19-labelled-stream",
        does="200 labelled as an event stream, holding a bare JSON error object.",
        answer=nothing,
        wire=answered(_JSON_ERROR, "text/event-stream"),
    ),
    Quirk(
        name="sim:q20-text-plain",
        does="A good stream labelled `text/plain`.",
        wire=labelled(("content-type", "text/plain"), _NO_CACHE),
    ),
    Quirk(
        name="sim:q20-octet-stream",
        does="A good stream labelled `application/octet-stream`.",
        wire=labelled(("content-type", "application/octet-stream")),
    ),
    Quirk(name="sim:q20-no-type", does="A good stream without a type.", wire=labelled(_NO_CACHE)),
    Quirk(
        name="sim:q20-semicolon",
        does="A good stream labelled `text/event-stream;charset=utf-8;`.",
        wire=labelled(("content-type", "text/event-stream;charset=utf-8;")),
    ),
    Quirk(name="sim:q21-empty", does="200, and no event.", answer=nothing, wire=empty),
    Quirk(name="sim:q21-204", does="204.", answer=nothing, wire=no_content),
    Quirk(
        name="sim:q22-leading-blank-lines",
        does="Empty lines for five seconds before the first event.",
        wire=over(queued),
    ),
    Quirk(
        name="sim:q23-gzip",
        does="gzip without being asked, flushed at the end only.",
        wire=compressed("gzip", packed(GZIP)),
    ),
    Quirk(
        name="sim:q23-gzip-members",
        does="gzip, one member for every event.",
        wire=compressed("gzip", members),
    ),
    Quirk(
        name="sim:q23-gzip-cut",
        does="gzip cut in half, under a framing that ends cleanly.",
        wire=cut_gzip,
    ),
    Quirk(
        name="sim:q23-deflate",
        does="deflate, flushed at the end only.",
        wire=compressed("deflate", packed(DEFLATE)),
    ),
    Quirk(name="sim:q24-301", does="301 to the same origin.", wire=redirect(301)),
    Quirk(name="sim:q24-302", does="302 to the same origin.", wire=redirect(302)),
    Quirk(name="sim:q24-307", does="307 to the same origin.", wire=redirect(307)),
    Quirk(name="sim:q24-308", does="308 to the same origin.", wire=redirect(308)),
    Quirk(
        name="sim:q24-other-origin",
        does="307 to another origin, where the key must not go.",
        wire=redirect(307, ELSEWHERE),
    ),
)
