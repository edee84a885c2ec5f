"""What no client should send, and some do: each is answered, and costs nobody else anything."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from settings.model import Settings
from tasks.gateway import bodies
from tasks.gateway.problems import Problem
from tests.harness.cluster import Cluster
from tests.harness.gateway import BODY_LIMIT, EventSource, Gateway
from tests.harness.waiting import wait_until
from worker.log import reader
from worker.log.cursor import Cursor

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def job(gateway: Gateway) -> str:
    """One that has ended."""
    with gateway.client() as client:
        made = str(client.post("/jobs", json={"kind": "generate", "prompt": "hello"}).json()["id"])
        wait_until("it ends", lambda: client.get(f"/jobs/{made}").json()["state"] == "ended")
    return made


def answer(gateway: Gateway, method: str, path: str, **options: Any) -> tuple[int, str]:
    with gateway.client() as client:
        reply = client.request(method, path, **options)
    if reply.headers.get("content-type") != "application/problem+json":
        return reply.status_code, ""
    problem = reply.json()
    assert problem["status"] == reply.status_code
    assert problem["type"].endswith(problem["code"])
    assert problem["title"]
    return reply.status_code, str(problem["code"])


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b"\xff\xfe", 400, "malformed"),
        (b'{"kind": "generate", "prompt": "\xff"}', 400, "malformed"),
        (b"[" * 100_000, 422, "invalid"),
        (b'{"kind": "generate", "prompt": ' + b"[" * 100_000, 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x"} extra', 400, "malformed"),
        (b"null", 422, "invalid"),
        (b"[]", 422, "invalid"),
        (b'"generate"', 422, "invalid"),
        (b"{}", 422, "invalid"),
        (b'{"kind": "nothing", "prompt": "x"}', 422, "invalid"),
        (b'{"kind": "generate"}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": ""}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "  "}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": 1}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": null}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x", "url": "http://evil"}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x", "max_output_tokens": -1}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x", "max_output_tokens": 1e999}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x", "priority": "first"}', 422, "invalid"),
        (b'{"kind": "generate", "prompt": "x", "deadline_s": 0}', 422, "invalid"),
        (b'{"kind": "refactor", "files": [], "instruction": "x"}', 422, "invalid"),
        (b'{"kind": "refactor", "files": [{"path": "a"}], "instruction": "x"}', 422, "invalid"),
        (
            b'{"kind": "refactor", "files": [{"path": "../a", "text": ""}], "instruction": "x"}',
            422,
            "invalid",
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_body_that_is_not_what_it_should_be_is_refused(
    gateway: Gateway, content: bytes, status: int, code: str
) -> None:
    assert answer(gateway, "POST", "/jobs", content=content, headers=JSON) == (status, code)


@pytest.mark.parametrize("prompt", ["", " \\n"])
def test_a_blank_prompt_is_refused_in_words(gateway: Gateway, prompt: str) -> None:
    content = f'{{"kind": "generate", "prompt": "{prompt}"}}'
    with gateway.client() as client:
        told = client.post("/jobs", content=content, headers=JSON).json()
    assert told["detail"] == "body: Expected text that is not blank - at `$.prompt`"


def test_a_body_must_say_that_it_is_json(gateway: Gateway) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        got = answer(gateway, "POST", "/jobs", content=b"{}", headers={"Content-Type": kind})
        assert got == (415, "unsupported_media_type")


def test_a_huge_body_is_refused_before_it_is_held(gateway: Gateway) -> None:
    before = gateway.rss_bytes()
    whole = b" " * (BODY_LIMIT + 1)
    assert answer(gateway, "POST", "/jobs", content=whole, headers=JSON) == (413, "too_large")

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield bytes(100_000)

    try:
        got = answer(gateway, "POST", "/jobs", content=endless(), headers=JSON)
        assert got == (413, "too_large")
    except httpx.TransportError:
        # It stopped listening while it was still being sent to.
        pass
    assert gateway.rss_bytes() - before < 30_000_000


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "_BODY_S", 0.05)

    async def nothing() -> dict[str, Any]:
        await asyncio.sleep(30)
        raise AssertionError

    request = Request({"type": "http", "headers": []}, nothing)
    with pytest.raises(Problem, match="slow_request"):
        await bodies.Bodies(Settings().gateway.max_body_bytes).received(request)


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "-1-0",
        "1--1",
        "1",
        "1-",
        "-",
        "1-7x",
        "9" * 40 + "-0",
        "1-0 OR 1",
        "\u0661-\u0662",
        "*",
    ],
)
def test_a_cursor_that_is_none_is_refused(gateway: Gateway, job: str, cursor: str) -> None:
    path = f"/jobs/{job}/events"
    assert answer(gateway, "GET", path, params={"from": cursor}) == (400, "invalid_cursor")
    header = {"Last-Event-ID": cursor.encode()}
    assert answer(gateway, "GET", path, headers=header) == (400, "invalid_cursor")


@pytest.mark.parametrize("cursor", ["99-0", "1-999999", "9223372036854775807-0"])
def test_a_cursor_from_the_future_is_refused(gateway: Gateway, job: str, cursor: str) -> None:
    path = f"/jobs/{job}/events"
    assert answer(gateway, "GET", path, params={"from": cursor}) == (400, "invalid_cursor")


def test_a_cursor_of_a_longer_job_is_refused_by_a_shorter_one(gateway: Gateway, job: str) -> None:
    with gateway.client() as client:

        def entries(made: str) -> list[str]:
            return [event.last_id for event in EventSource(client, f"/jobs/{made}/events").events()]

        # No text, however the deltas of the other share their entries.
        body = {"kind": "generate", "prompt": "hello", "model": "sim:no-such-model"}
        failed = client.post("/jobs", json=body).json()["id"]
        shorter, longer = (Cursor.parse(entries(made)[-1]) for made in (failed, job))
    assert shorter < longer
    got = answer(gateway, "GET", f"/jobs/{failed}/events", params={"from": str(longer)})
    assert got == (400, "invalid_cursor")
    assert answer(gateway, "GET", f"/jobs/{job}/events", params={"from": str(shorter)})[0] == 200


@pytest.mark.parametrize(
    "name",
    ["0", "x" * 5000, "%00", "..%2f..", "%0d%0aSet-Cookie:%20a=b", "ls:jobs", "%f0%9f%8c%8a"],
)
def test_a_job_that_is_none_is_not_found(gateway: Gateway, name: str) -> None:
    for path in (f"/jobs/{name}", f"/jobs/{name}/events", f"/jobs/{name}/result"):
        assert answer(gateway, "GET", path)[0] == 404
    assert answer(gateway, "POST", f"/jobs/{name}/cancel")[0] == 404
    assert answer(gateway, "GET", f"/view/{name}")[0] == 404


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=1000000",
        "state=nothing",
        "unknown=1",
        "limit=1&limit=2",
        "after=x",
        "after=-1-x",
    ],
)
def test_a_query_that_means_nothing_is_refused(gateway: Gateway, query: str) -> None:
    status, code = answer(gateway, "GET", f"/jobs?{query}")
    assert (status, code) in ((400, "malformed"), (400, "invalid_cursor"))


@pytest.mark.parametrize(
    "twice",
    [
        ("Host: 127.0.0.1", "Host: evil.example"),
        ("Authorization: Bearer a", "authorization: Bearer b"),
        ("Last-Event-ID: 1-1", "Last-Event-ID: 1-2"),
    ],
    ids=str,
)
def test_a_header_that_means_one_thing_is_refused_twice(
    gateway: Gateway, twice: tuple[str, str]
) -> None:
    """A proxy may have looked at the first and the gateway at the second."""
    host = [] if twice[0].startswith("Host") else ["Host: 127.0.0.1"]
    head = "\r\n".join(["GET /jobs HTTP/1.1", *host, *twice, "Connection: close", "", ""])
    with socket.create_connection(("127.0.0.1", gateway.port)) as link:
        link.sendall(head.encode())
        reply = http.client.HTTPResponse(link)
        reply.begin()
        assert (reply.status, json.loads(reply.read())["code"]) == (400, "malformed")


def test_so_many_jobs_and_no_more_are_followed_on_one_connection(gateway: Gateway) -> None:
    names = [f"nobody-{number}" for number in range(33)]
    for count, told in ((32, (404, "unknown_job")), (33, (400, "malformed"))):
        assert answer(gateway, "GET", f"/events?jobs={','.join(names[:count])}") == told


def test_no_header_can_be_smuggled_into_an_answer(gateway: Gateway) -> None:
    evil = "a\r\nSet-Cookie: evil=1"
    for key in (evil, evil.replace("\r\n", "\n"), "a\x00b"):
        with socket.create_connection(("127.0.0.1", gateway.port)) as link:
            body = json.dumps({"kind": "generate", "prompt": "x"}).encode()
            head = (
                f"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: {key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n"
            )
            link.sendall(head.encode() + body)
            reply = http.client.HTTPResponse(link)
            reply.begin()
            assert reply.getheader("set-cookie") is None
    status, _ = answer(gateway, "GET", "/view/%0d%0aSet-Cookie:x")
    assert status == 404


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"NOTHING\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=lambda sent: repr(sent[:40]),
)
def test_what_is_no_http_ends_that_connection_and_no_other(gateway: Gateway, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), 5) as link:
        try:
            link.sendall(sent)
            assert link.recv(100).startswith(b"HTTP/1.1 4")
        except ConnectionError:
            pass
    assert answer(gateway, "GET", "/jobs") == (200, "")


def streams(gateway: Gateway) -> int:
    text = httpx.get(f"{gateway.url}/metrics").text
    (line,) = [each for each in text.splitlines() if "gateway_readers " in each and each[0] != "#"]
    return int(float(line.split()[-1]))


def asked(gateway: Gateway, path: str, *, window: int | None = None) -> socket.socket:
    """A connection that has sent a request and reads nothing."""
    link = socket.socket()
    if window is not None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    link.connect(("127.0.0.1", gateway.port))
    link.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return link


def test_clients_that_vanish_leave_nothing_behind(gateway: Gateway) -> None:
    with gateway.client() as client:
        body = {"kind": "generate", "prompt": "hello", "model": "sim:stall"}
        stalled = client.post("/jobs", json=body).json()["id"]
        links = [asked(gateway, f"/jobs/{stalled}/events") for _ in range(100)]
        wait_until("all read", lambda: streams(gateway) == 100)
        for number, link in enumerate(links):
            if number % 2:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.close()
        wait_until("all are gone", lambda: streams(gateway) == 0)
        client.post(f"/jobs/{stalled}/cancel")


def test_clients_that_read_nothing_hold_nobody_up(gateway: Gateway, shared: Cluster) -> None:
    with gateway.client() as client, ExitStack() as links:
        body = {"kind": "generate", "prompt": "hello", "model": "sim:slow"}
        job = client.post("/jobs", json=body).json()["id"]
        for _ in range(100):
            links.enter_context(asked(gateway, f"/jobs/{job}/events", window=2048))
        text = ""
        for event in EventSource(client, f"/jobs/{job}/events").events():
            if event.name == "text":
                text += event.data["text"]
        assert text == reader.text_of(shared.client, job)


def test_two_thousand_idle_connections_keep_nobody_out(gateway: Gateway) -> None:
    before = gateway.rss_bytes()
    with ExitStack() as links:
        for _ in range(2000):
            links.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
        began = time.monotonic()
        assert answer(gateway, "GET", "/jobs") == (200, "")
        assert time.monotonic() - began < 2
        assert gateway.rss_bytes() - before < 60_000_000


@pytest.mark.slow
def test_who_connects_and_asks_for_nothing_is_dropped(gateway: Gateway) -> None:
    files = gateway.files()
    with ExitStack() as links:
        for _ in range(200):
            links.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
        wait_until("they are there", lambda: gateway.files() >= files + 150)
        # They have ten seconds to ask for something.
        wait_until("they are dropped", lambda: gateway.files() < files + 50, 25)
