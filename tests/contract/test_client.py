"""The client against a provider made of raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from settings.model import Clocks
from tests.harness.asking import REQUEST, SECRET, ask, fail, key_for, quick_client, text_of
from tests.harness.wire import (
    DONE,
    END,
    HANG,
    PAUSE,
    RESET,
    USAGE,
    Script,
    WireServer,
    chunk,
    delta,
    head,
    plain,
)
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished, Text, Thinking, Usage

ON = ("asyncio", "engine")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


async def test_a_stream_becomes_thinking_text_usage_and_its_end(client: Client) -> None:
    body = (
        delta(role="assistant", content="")
        + delta(reasoning_content="let ")
        + delta(reasoning_content="me")
        + delta(content="Hel")
        + delta(content="lo")
        + delta("stop")
        + USAGE
        + DONE
    )

    happenings = await ask(client, [head(), chunk(body), END])

    assert happenings == [
        Thinking("let me", 2),
        Text("Hel"),
        Text("lo"),
        Usage(9, 0, 5, 3),
        Finished(Outcome.COMPLETED, "stop"),
    ]


async def test_the_request_carries_the_familys_defaults_at_the_top_level(client: Client) -> None:
    async with WireServer([head(), chunk(delta("stop", content="x") + DONE), END]) as server:
        async for _ in client.stream(REQUEST, key_for(server)):
            pass
        sent = server.requests[0]

    assert sent.path == "/v1/chat/completions"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    assert sent.body["reasoning_effort"] == "low"
    assert sent.body["max_reasoning_tokens"] == 4096
    assert sent.body["reasoning_chunk_buffer"] == 256
    assert sent.body["stream"] is True
    assert "extra_body" not in sent.body


async def test_deltas_arrive_one_by_one_while_the_stream_is_open(client: Client) -> None:
    second, third = asyncio.Event(), asyncio.Event()
    script: Script = [
        head(), chunk(delta(content="a")), second, chunk(delta(content="b")), third,
        chunk(delta("stop") + USAGE + DONE), END,
    ]  # fmt: skip
    async with WireServer(script) as server:
        stream = client.stream(REQUEST, key_for(server))
        assert await anext(stream) == [Text("a")]
        second.set()
        assert await anext(stream) == [Text("b")]
        third.set()
        assert (await anext(stream))[-1] == Finished(Outcome.COMPLETED, "stop")
        assert [batch async for batch in stream] == []


async def test_a_burst_in_many_http_chunks_is_one_list(client: Client) -> None:
    burst = b"".join(chunk(delta(reasoning_content=f"t{n} ")) for n in range(150))
    script: Script = [head(), PAUSE, burst + chunk(delta("stop", content="x") + USAGE + DONE), END]
    async with WireServer(script) as server:
        batches = [batch async for batch in client.stream(REQUEST, key_for(server))]

    assert len(batches) <= 3
    assert sum(h.tokens for batch in batches for h in batch if isinstance(h, Thinking)) == 150


async def test_a_clean_end_without_a_terminal_is_truncated_and_keeps_its_deltas(
    client: Client,
) -> None:
    failure, seen = await fail(client, [head(), chunk(delta(content="half")), END])

    assert (failure.kind, failure.retryable, failure.visible) == ("truncated", True, 1)
    assert text_of(seen) == "half"


async def test_a_body_that_stops_inside_a_chunk_is_truncated(client: Client) -> None:
    failure, seen = await fail(client, [head(), chunk(delta(content="half")), b"ff\r\ndata: {"])

    assert failure.kind == "truncated"
    assert text_of(seen) == "half"


async def test_a_reset_in_mid_stream_is_a_lost_connection(client: Client) -> None:
    failure, seen = await fail(client, [head(), chunk(delta(content="half")), PAUSE, RESET])

    assert (failure.kind, failure.fault, failure.visible) == ("connection_lost", "network", 1)
    assert text_of(seen) == "half"


@pytest.mark.parametrize("terminal", [delta("stop") + USAGE + DONE, delta("stop")])
async def test_a_reset_after_the_terminal_is_success(client: Client, terminal: bytes) -> None:
    happenings = await ask(client, [head(), chunk(delta(content="all") + terminal), PAUSE, RESET])

    assert text_of(happenings) == "all"
    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


@pytest.mark.parametrize("usage", [b"", USAGE])
async def test_the_end_is_told_although_the_body_stays_open(client: Client, usage: bytes) -> None:
    body = delta("stop", content="all") + usage + DONE

    async with asyncio.timeout(2):
        happenings = await ask(client, [head(), chunk(body), HANG])

    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


async def test_usage_after_the_sentinel_is_taken_and_text_after_it_is_not(client: Client) -> None:
    body = delta("stop", content="all") + DONE
    late = USAGE + delta(content="stray")

    happenings = await ask(client, [head(), chunk(body), PAUSE, chunk(late), END])

    assert text_of(happenings) == "all"
    assert Usage(9, 0, 5, 3) in happenings


@pytest.mark.parametrize(
    ("answer", "kind", "fault", "retryable"),
    [
        (plain("401 Unauthorized", b'{"error":{"message":"bad"}}'), "bad_key", "key", False),
        (plain("404 Not Found", b"<html>"), "wrong_url", "key", False),
        (plain("500 Oops", b""), "provider_error", "provider", True),
        (plain("529 Overloaded", b"<html>"), "overloaded", "provider", True),
        (plain("302 Found", b"", location="https://x/"), "redirect", "key", False),
        (plain("204 No Content", b""), "empty", "provider", True),
        (plain("200 OK", b""), "empty", "provider", True),
        (plain("200 OK", b"<html>", content_type="text/html"), "not_a_stream", "network", True),
    ],
)
async def test_an_answer_that_is_no_stream_is_classified(
    client: Client, answer: bytes, kind: str, fault: str, retryable: bool
) -> None:
    failure, seen = await fail(client, [answer])

    assert (failure.kind, failure.fault, failure.retryable) == (kind, fault, retryable)
    assert seen == []


async def test_a_refused_connection_is_the_networks_fault(client: Client) -> None:
    async with WireServer([]) as server:
        key = key_for(server)
    with pytest.raises(UpstreamFailure) as caught:
        await anext(client.stream(REQUEST, key))

    assert (caught.value.kind, caught.value.fault) == ("connect", "network")


async def test_a_reader_that_goes_away_closes_the_connection(client: Client) -> None:
    async with WireServer([head(), chunk(delta(content="a")), HANG]) as server:
        stream = client.stream(REQUEST, key_for(server))
        await anext(stream)
        await stream.aclose()

        await server.all_closed()


async def test_a_reader_cancelled_twice_closes_the_connection(client: Client) -> None:
    async with WireServer([head(), HANG]) as server:
        stream = client.stream(REQUEST, key_for(server))
        reader = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        while not server.requests:
            await asyncio.sleep(0.005)
        reader.cancel()
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait([reader])

        await server.all_closed()


async def test_a_finished_stream_leaves_its_connection_for_the_next(client: Client) -> None:
    script: Script = [head(), chunk(delta("stop", content="x") + USAGE + DONE), PAUSE, END]
    async with WireServer(script) as server:
        for _ in range(3):
            async for _ in client.stream(REQUEST, key_for(server)):
                pass
            while client.open_streams:
                await asyncio.sleep(0.005)

        assert (server.connections, len(server.requests)) == (1, 3)


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/?api-version=preview", "/v1/chat/completions?api-version=preview"),
    ],
)
async def test_a_base_url_is_continued_as_it_is_meant(
    client: Client, suffix: str, path: str
) -> None:
    async with WireServer([head(), chunk(delta("stop", content="x") + DONE), END]) as server:
        key = key_for(server)
        async for _ in client.stream(REQUEST, replace(key, base_url=key.base_url + suffix)):
            pass

        assert server.requests[0].path == path


async def test_a_document_cut_over_two_events_is_put_together(client: Client) -> None:
    whole = delta(content="abc")
    halves = whole[:40] + b"\n\n" + b"data: " + whole[40:]

    happenings = await ask(client, [head(), chunk(halves + delta("stop") + DONE), END])
    assert text_of(happenings) == "abc"


async def test_garbage_ends_the_attempt_and_shows_only_in_the_sample(client: Client) -> None:
    garbage = b"data: my secret answer, not JSON\n\n"

    failure, seen = await fail(client, [head(), chunk(delta(content="a") + garbage), END])
    assert (text_of(seen), failure.kind, failure.visible) == ("a", "protocol", 1)
    assert failure.sample == b"my secret answer, not JSON"
    assert "secret" not in str(failure)


async def test_models_are_listed(client: Client) -> None:
    async with WireServer([plain("200 OK", b'{"data":[{"id":"b"},{"id":"a"}]}')]) as server:
        assert await client.models(key_for(server)) == ["a", "b"]
        assert server.requests[0].path == "/v1/models"


async def test_models_with_a_bad_key_says_so(client: Client) -> None:
    async with WireServer([plain("401 No", b'{"error":{"message":"no such key"}}')]) as server:
        with pytest.raises(UpstreamFailure, match="no such key") as caught:
            await client.models(key_for(server))

    assert caught.value.fault == "key"


@pytest.mark.parametrize(
    ("clocks", "kind", "script"),
    [
        (Clocks(headers_s=0.1), "headers", [HANG]),
        (Clocks(bytes_idle_s=0.1), "bytes_idle", [head(), chunk(delta(content="a")), HANG]),
        (
            Clocks(progress_idle_s=0.2),
            "progress_idle",
            [head(), chunk(delta(content="a")), *[chunk(b": hb\n\n"), PAUSE] * 100],
        ),
        (
            Clocks(total_s=0.2),
            "total",
            [head(), *[chunk(delta(content="a")), PAUSE] * 100],
        ),
        (Clocks(read_s=0.1), "read_timeout", [head(), chunk(delta(content="a")), HANG]),
    ],
)
async def test_each_clock_fires_by_its_name(clocks: Clocks, kind: str, script: Script) -> None:
    async with quick_client(clocks) as client:
        failure, seen = await fail(client, script)

    assert failure.kind == kind
    assert failure.visible == len([h for h in seen if isinstance(h, Text)])
