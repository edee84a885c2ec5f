"""Quirks of statuses, limits and connections."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator

import anyio
import h11
import httpx
import pytest

from settings.model import Clocks
from tests.harness.asking import REQUEST, ask, fail, key_for, quick_client, text_of
from tests.harness.wire import (
    DONE,
    HANG,
    PAUSE,
    Received,
    Script,
    WireServer,
    chunk,
    delta,
    head,
    plain,
    stream,
)
from worker.upstream.client import Client
from worker.upstream.transport import failure_of

ON = ("engine",)

WHOLE = stream(delta("stop", content="a"), DONE)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


def refusal(status: str, message: str = "no", code: str | None = None, **headers: str) -> bytes:
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    return plain(status, body, content_type="application/json", **headers)


@pytest.mark.parametrize(
    ("headers", "delay_s"),
    [
        ({"retry_after": "2"}, 2.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"date": "Mon, 30 Nov 2026 02:00:00 GMT",
          "retry_after": "Mon, 30 Nov 2026 02:00:30 GMT"}, 30.0),
        ({"retry_after": "0"}, None),
        ({"retry_after": "-1"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "99999999"}, 86_400.0),
    ],
)  # fmt: skip
async def test_r1_a_wait_is_read_and_never_becomes_a_hot_loop(
    client: Client, headers: dict[str, str], delay_s: float | None
) -> None:
    failure, _ = await fail(client, [refusal("429 Too Many Requests", **headers)])

    assert (failure.kind, failure.fault, failure.retryable) == ("rate_limited", "account", True)
    assert failure.delay_s == delay_s


async def test_r2_the_exhausted_limit_decides_how_long_and_which(client: Client) -> None:
    answer = refusal(
        "429 Too Many Requests",
        x_ratelimit_remaining_requests="12", x_ratelimit_reset_requests="17ms",
        x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="1m30.5s",
    )  # fmt: skip

    failure, _ = await fail(client, [answer])
    assert (failure.delay_s, failure.dimension) == (90.5, "tokens")


@pytest.mark.parametrize(
    "answer",
    [
        refusal("429 Too Many Requests", code="insufficient_quota", retry_after="1"),
        refusal("429 Too Many Requests", code="credit_balance_exhausted"),
        refusal("429 Too Many Requests", message="Quota exceeded, limit: 0, model: x"),
        refusal("402 Payment Required"),
    ],
)
async def test_r3_an_empty_account_is_not_retried(client: Client, answer: bytes) -> None:
    failure, _ = await fail(client, [answer])

    assert (failure.kind, failure.fault, failure.retryable) == ("no_credit", "account", False)
    assert failure.delay_s is None


@pytest.mark.parametrize(
    "answer",
    [
        refusal("429 Too Many Requests", code="slow_down"),
        refusal("503 Service Unavailable", code="server_is_overloaded"),
        plain("529 Overloaded", b"<html>overloaded", content_type="text/html"),
    ],
)
async def test_r4_an_overloaded_provider_is_tried_again(client: Client, answer: bytes) -> None:
    failure, _ = await fail(client, [answer])

    assert (failure.kind, failure.fault, failure.retryable) == ("overloaded", "provider", True)


@pytest.mark.parametrize("status", [500, 502, 504, 520, 521, 522, 523, 524])
async def test_r4_a_page_of_the_edge_is_not_parsed_as_json(client: Client, status: int) -> None:
    page = b"<html><title>a timeout occurred</title>"

    failure, _ = await fail(client, [plain(f"{status} Oops", page, content_type="text/html")])
    assert (failure.fault, failure.retryable, failure.status) == ("provider", True, status)
    assert failure.sample == page


@pytest.mark.parametrize(
    ("answer", "kind", "fault", "retryable"),
    [
        (refusal("400 Bad Request"), "bad_request", "request", False),
        (refusal("401 Unauthorized"), "bad_key", "key", False),
        (refusal("403 Forbidden"), "forbidden", "key", False),
        (plain("403 Forbidden", b"<html>", content_type="text/html"), "blocked", "network", False),
        (refusal("404 Not Found", code="model_not_found"), "not_found", "request", False),
        (plain("404 Not Found", b"nope"), "wrong_url", "key", False),
        (refusal("405 Method Not Allowed"), "wrong_url", "key", False),
        (refusal("408 Request Timeout"), "timed_out", "provider", True),
        (refusal("409 Conflict"), "conflict", "provider", True),
        (refusal("413 Too Large"), "too_large", "request", False),
        (refusal("400 Bad Request", code="context_length_exceeded"), "too_large", "request", False),
        (refusal("400 Bad Request", code="content_filter"), "filtered", "request", False),
        (refusal("422 Unprocessable"), "bad_request", "request", False),
        (refusal("425 Too Early"), "too_early", "provider", True),
        (refusal("501 Not Implemented"), "provider_error", "provider", False),
    ],
)
async def test_r5_each_refusal_has_one_meaning(
    client: Client, answer: bytes, kind: str, fault: str, retryable: bool
) -> None:
    failure, _ = await fail(client, [answer])

    assert (failure.kind, failure.fault, failure.retryable) == (kind, fault, retryable)


@pytest.mark.parametrize(
    "script",
    [[plain("503 Oops", b"")], [refusal("429 No")], [head(), HANG], [], stream(delta(content="a"))],
)
async def test_r6_nothing_is_ever_posted_twice_by_itself(script: Script) -> None:
    clocks = Clocks(bytes_idle_s=0.1)
    async with quick_client(clocks) as client, WireServer(script) as server:
        stream_ = client.stream(REQUEST, key_for(server))
        with pytest.raises(Exception, match=r".+"):
            await _all(stream_)

        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("clocks", "kind", "rest"),
    [
        (Clocks(bytes_idle_s=0.15), "bytes_idle", [HANG]),
        (Clocks(progress_idle_s=0.3), "progress_idle", [chunk(b": hb\n\n"), PAUSE] * 200),
        (Clocks(progress_idle_s=0.3), "progress_idle", [chunk(b"d"), PAUSE] * 200),
        (Clocks(total_s=0.3), "total", [chunk(delta(reasoning="r")), PAUSE] * 200),
    ],
)
async def test_r7_a_stall_is_noticed_whatever_still_trickles(
    clocks: Clocks, kind: str, rest: Script
) -> None:
    begun: Script = [head(), chunk(delta(reasoning="r") * 3 + delta(content="a"))]
    async with quick_client(clocks) as client:
        failure, seen = await fail(client, [*begun, *rest])

    assert (failure.kind, text_of(seen), failure.visible) == (kind, "a", 1)
    assert failure.reasoning >= 3
    assert f"{kind} clock" in str(failure)
    assert f"{failure.reasoning} reasoning tokens and 1 visible" in str(failure)


async def test_r8_everything_in_one_read_is_the_same_answer(client: Client) -> None:
    deltas = [delta(reasoning="r") * 500 + delta(content=f"{n} ") for n in range(20)]
    body = b"".join(deltas) + delta("stop") + DONE

    assert text_of(await ask(client, stream(body))) == "".join(f"{n} " for n in range(20))


async def test_r9_abandoned_streams_do_not_use_up_the_connections() -> None:
    async with (
        Client(Clocks(pool_s=0.5), streams=3) as client,
        WireServer([head(), chunk(delta(content="a")), HANG]) as server,
    ):
        for _ in range(12):
            stream_ = client.stream(REQUEST, key_for(server))
            await anext(stream_)
            await stream_.aclose()

        assert server.connections == 12


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ssl.SSLError(1, "[SSL] record layer failure"), "connection_lost"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "tls"),
        (anyio.EndOfStream(), "connection_lost"),
        (anyio.ClosedResourceError(), "connection_lost"),
        (h11.RemoteProtocolError("bad"), "connection_lost"),
        (ConnectionResetError(), "connection_lost"),
        (httpx.DecodingError("bad"), "connection_lost"),
        (RuntimeError("inside the library"), "connection_lost"),
    ],
)
def test_r10_a_foreign_exception_does_not_escape(error: Exception, kind: str) -> None:
    failure = failure_of(error, began=False)

    assert (failure.kind, failure.fault) == (kind, "network")


async def test_a_wait_is_kept_apart_for_each_request(client: Client) -> None:
    answers = iter([[refusal("429 No", retry_after="3")], WHOLE])

    def script(_: Received) -> Script:
        return next(answers)

    async with WireServer(script) as server:
        with pytest.raises(Exception, match="429"):
            await _all(client.stream(REQUEST, key_for(server)))
        assert await _all(client.stream(REQUEST, key_for(server)))


async def _all(stream_: AsyncIterator[object]) -> list[object]:
    async with asyncio.timeout(10):
        return [batch async for batch in stream_]
