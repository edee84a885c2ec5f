"""One successful answer, without I/O: body bytes in, happenings out, and an end that is earned.

An answer is `over` once it finished or failed. What came before a failure is returned first, and
`failed` then says what happened. `feed` takes bytes, `close` the clean end of the body, `cut` the
failure of the connection, and `conclude` the end of the client's patience after the terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from worker.upstream.bodies import Body, body_of, is_event_stream
from worker.upstream.encodings import Inflate, inflate_for
from worker.upstream.failures import UpstreamFailure, malformed, truncated
from worker.upstream.happenings import Happening
from worker.upstream.sse import LIMIT_BYTES, Decoder, Event, EventTooLarge

#: An answer in one JSON document is held whole; far more than any model writes.
JSON_BYTES = 64 * 2**20


class Dialect(Protocol):
    """The state machine of one provider protocol."""

    reasoning: int
    visible: int
    failed: UpstreamFailure | None

    @property
    def notes(self) -> Counter[str]: ...
    @property
    def grace_s(self) -> float | None: ...
    @property
    def lone(self) -> Callable[[bytes], Happening | None] | None:
        """Says what the data of an event bring that has one kind of news and nothing beside it;
        None, and nothing has changed, for any other, which `feed` must be given."""

    def feed(self, events: list[Event]) -> list[Happening]: ...
    def whole(self, body: bytes) -> list[Happening]: ...
    def tail(self, event: Event) -> list[Happening]: ...
    def finish(self) -> list[Happening]: ...


class Answer:
    """Reads one body in one dialect."""

    def __init__(
        self, dialect: Dialect, content_type: str = "text/event-stream", encoding: str = ""
    ) -> None:
        self.dialect = dialect
        self.failed: UpstreamFailure | None = None
        self.over = False
        #: Parsed events so far, for the progress clock.
        self.events = 0
        #: How long the end may still be waited for; None while the answer is under way.
        self.grace_s: float | None = None
        self._type = content_type
        self._inflate = inflate_for(encoding)
        self._decoder = Decoder(LIMIT_BYTES)
        self._body: Body | None = None
        self._begun = b""
        self._json = bytearray()
        #: What says what the data of one usual event bring, None for those of any other; None when
        #: what comes next must be given to `feed`, whatever it is.
        self.usual: Callable[[bytes], Happening | None] | None = None

    def feed(self, data: bytes) -> list[Happening]:
        """What these bytes bring, the end included when they are the end."""
        happenings = self._fed(data)
        plain = self._body is Body.EVENTS and self._inflate is None and self._decoder.fresh
        self.usual = self.dialect.lone if plain and not self.over else None
        return happenings

    def _fed(self, data: bytes) -> list[Happening]:
        if self._inflate is not None:
            data = self._unpacked(self._inflate, data)
        if self._body is not Body.EVENTS:
            data = self._opening(data)
        try:
            events = self._decoder.feed(data)
        except EventTooLarge as error:
            self._fail(malformed(str(error), b""))
            return []
        if not events:
            return []
        self.events += len(events)
        happenings = self.dialect.feed(events)
        self.grace_s = self.dialect.grace_s
        if self.dialect.failed is not None:
            self._fail(self.dialect.failed)
        elif self.grace_s == 0.0:
            happenings += self.conclude()
        return happenings

    def close(self) -> list[Happening]:
        """The body ended cleanly."""
        if self._inflate is not None and not self._inflate.whole:
            return self.cut(truncated("the compressed body ends in the middle"))
        if self._body is Body.JSON:
            happenings = self.dialect.whole(bytes(self._json))
        elif self._body is None:
            return self._nothing_came()
        else:
            tail = self._decoder.tail()
            happenings = [] if tail is None else self.dialect.tail(tail)
        if self.dialect.failed is not None:
            self._fail(self.dialect.failed)
            return happenings
        return happenings + self.conclude()

    def cut(self, failure: UpstreamFailure) -> list[Happening]:
        """The connection failed. An unfinished event is dropped, since it may be half of one."""
        if self.dialect.grace_s is None:
            self._fail(failure)
            return []
        self.dialect.notes["dirty_close"] += 1
        return self.conclude()

    def conclude(self) -> list[Happening]:
        """Nothing more will come: the last happenings, if the end was earned."""
        self.over, self.usual = True, None
        try:
            return self.dialect.finish()
        except UpstreamFailure as failure:
            self._fail(failure)
            return []

    def _unpacked(self, inflate: Inflate, data: bytes) -> bytes:
        try:
            return inflate.feed(data)
        except UpstreamFailure as failure:
            self._fail(failure)
            return b""

    def _opening(self, data: bytes) -> bytes:
        """Finds out what the body is; returns the bytes that are for the decoder."""
        if self._body is None:
            # Blank lines before a body keep connections alive, for minutes at some providers.
            begun = (self._begun + data).lstrip()
            self._body = body_of(begun, self._type)
            data, self._begun = (b"", begun) if self._body is None else (begun, b"")
        if self._body is Body.JSON:
            self._json += data
            if len(self._json) > JSON_BYTES:
                self._fail(malformed("the JSON body is too large", bytes(self._json[:200])))
        elif self._body is Body.OTHER:
            self._fail(not_a_stream(self._type, data))
        elif self._body is Body.EVENTS and not is_event_stream(self._type):
            self.dialect.notes["mislabelled"] += 1
        return data if self._body is Body.EVENTS else b""

    def _nothing_came(self) -> list[Happening]:
        self._fail(not_a_stream(self._type, self._begun) if self._begun else empty_answer(200))
        return []

    def _fail(self, failure: UpstreamFailure) -> None:
        self.over, self.usual = True, None
        self.failed = self.failed or failure


def not_a_stream(content_type: str, sample: bytes) -> UpstreamFailure:
    """A page of a proxy, a portal or a firewall in the place of the stream."""
    return UpstreamFailure(
        f"the answer is no stream but {content_type.partition(';')[0].strip() or 'unlabelled'}:"
        " something between here and the provider answers in its place",
        kind="not_a_stream",
        fault="network",
        retryable=True,
        sample=sample,
    )


def empty_answer(status: int) -> UpstreamFailure:
    return UpstreamFailure(
        f"the provider answered {status} with nothing in it",
        kind="empty",
        fault="provider",
        retryable=True,
        status=status,
    )
