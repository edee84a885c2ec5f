"""A body is known by its first bytes, as soon as they can tell and not before."""

from __future__ import annotations

import pytest

from worker.upstream.bodies import Body, body_of

SSE = "text/event-stream"


@pytest.mark.parametrize(
    ("begun", "label", "body"),
    [
        (b"data: x", SSE, Body.EVENTS),
        (b"d", SSE, Body.EVENTS),
        (b"unknown: x", SSE, Body.EVENTS),
        (b": hb", "text/plain", Body.EVENTS),
        (b"data: x", "", Body.EVENTS),
        (b"event: x", "application/json", Body.EVENTS),
        (b"id: 1", "text/html", Body.EVENTS),
        (b"\xef\xbb\xbfdata: x", "text/plain", Body.EVENTS),
        (b"dat", "text/plain", None),
        (b"\xef\xbb", "text/plain", None),
        (b"", SSE, None),
        (b"{", SSE, Body.JSON),
        (b"\n\n [", "text/plain", Body.JSON),
        (b"<", SSE, Body.OTHER),
        (b"database is down", "text/plain", Body.OTHER),
        (b"Bad Gateway", "text/plain", Body.OTHER),
    ],
)
def test_what_a_body_is(begun: bytes, label: str, body: Body | None) -> None:
    assert body_of(begun, label) is body


@pytest.mark.parametrize(
    "label", ["Text/Event-Stream", "text/event-stream;charset=utf-8;", " text/event-stream ; x=y"]
)
def test_a_label_is_read_without_its_parameters(label: str) -> None:
    assert body_of(b"whatever", label) is Body.EVENTS
