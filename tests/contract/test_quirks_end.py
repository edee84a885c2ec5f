"""Quirks of the end of a stream, and of the Responses API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.harness.asking import REQUEST, ask, fail, key_for, noted, quick_client, text_of
from tests.harness.wire import (
    DONE,
    END,
    HANG,
    PAUSE,
    RESET,
    USAGE,
    WireServer,
    chunk,
    delta,
    event,
    head,
    stream,
)
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.happenings import Finished, Usage

ON = ("engine",)

COMPLETED = Finished(Outcome.COMPLETED, "completed")


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


def said(text: str, **more: object) -> bytes:
    return event({"type": "response.output_text.delta", "item_id": "m", "delta": text, **more})


def completed(*texts: str) -> bytes:
    parts = [{"type": "output_text", "text": text} for text in texts]
    output = [{"id": "m", "type": "message", "content": parts}] if texts else []
    return event({"type": "response.completed", "response": {"output": output}})


async def test_q46_a_missing_sentinel_does_not_fail_a_finished_answer(client: Client) -> None:
    happenings = await ask(client, stream(delta("stop", content="a")))

    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


@pytest.mark.parametrize("provider", ["simulator", "responses"])
async def test_q47_a_clean_end_without_a_terminal_is_not_success(
    client: Client, provider: str
) -> None:
    script = stream(delta(content="a") if provider == "simulator" else said("a"))

    failure, seen = await fail(client, script, provider)
    assert (text_of(seen), failure.kind, failure.retryable) == ("a", "truncated", True)


@pytest.mark.parametrize(
    "terminal", [delta("stop") + USAGE + DONE, delta("stop") + DONE, delta("stop")]
)
async def test_q48_a_body_left_open_after_the_end_is_not_waited_for(
    client: Client, terminal: bytes
) -> None:
    async with asyncio.timeout(3):
        happenings = await ask(client, [head(), chunk(delta(content="a") + terminal), HANG])

    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


async def test_q48_a_response_left_open_after_its_end_is_not_waited_for(client: Client) -> None:
    async with asyncio.timeout(3):
        script = [head(), chunk(said("a") + completed()), HANG]
        assert (await ask(client, script, "responses"))[-1] == COMPLETED


@pytest.mark.parametrize("end", [[RESET], []])
async def test_q49_a_broken_connection_after_the_end_is_not_retried(
    client: Client, end: list[object]
) -> None:
    script = [head(), chunk(delta("stop", content="a")), PAUSE, *end]

    happenings, notes = await noted(client, script)  # type: ignore[arg-type]
    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")
    assert notes["dirty_close"] == 1


async def test_q47_a_body_that_only_the_close_delimits_may_be_whole(client: Client) -> None:
    old = head(transfer_encoding="").replace(b"HTTP/1.1", b"HTTP/1.0")

    happenings = await ask(client, [old, delta("stop", content="a") + DONE])
    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


async def test_q47_a_body_that_only_the_close_delimits_may_be_cut(client: Client) -> None:
    old = head(transfer_encoding="").replace(b"HTTP/1.1", b"HTTP/1.0")

    failure, seen = await fail(client, [old, delta(content="a")])
    assert (text_of(seen), failure.kind) == ("a", "truncated")


async def test_q47_a_body_shorter_than_its_length_is_cut(client: Client) -> None:
    short = head(transfer_encoding="", content_length="5000") + delta(content="a")

    failure, seen = await fail(client, [short])
    assert (text_of(seen), failure.kind) == ("a", "truncated")


@pytest.mark.parametrize("length", ["ffff", "2"])
async def test_q50_a_chunk_cut_in_mid_stream_keeps_what_was_framed(
    client: Client, length: str
) -> None:
    cut = f"{length}\r\ndata: {{".encode()

    failure, seen = await fail(client, [head(), chunk(delta(content="a")), cut])
    assert text_of(seen) == "a"
    assert failure.kind in ("truncated", "connection_lost")


async def test_q51_text_after_the_sentinel_is_not_delivered_but_usage_is(client: Client) -> None:
    late = delta(content="stray") + USAGE

    happenings, notes = await noted(client, stream(delta("stop", content="a"), DONE + late))
    assert text_of(happenings) == "a"
    assert Usage(9, 0, 5, 3) in happenings
    assert notes["content_after_done"] == 1


@pytest.mark.parametrize("name", [b"", b"event:\n", b"event: response.created\n"])
async def test_q52_the_type_in_the_json_decides_and_not_the_event_line(
    client: Client, name: bytes
) -> None:
    script = stream(name + said("a"), name + completed("a"))

    happenings = await ask(client, script, "responses")
    assert (text_of(happenings), happenings[-1]) == ("a", COMPLETED)


async def test_q52_the_event_line_decides_when_the_json_has_no_type(client: Client) -> None:
    script = stream(
        b"event: response.output_text.delta\n" + event({"item_id": "m", "delta": "a"}),
        b"event: response.completed\n" + event({"response": {"output": []}}),
    )

    happenings = await ask(client, script, "responses")
    assert (text_of(happenings), happenings[-1]) == ("a", COMPLETED)


async def test_q53_an_empty_snapshot_does_not_wipe_the_text(client: Client) -> None:
    happenings = await ask(client, stream(said("a"), said("b"), completed()), "responses")

    assert (text_of(happenings), happenings[-1]) == ("ab", COMPLETED)


async def test_q53_a_snapshot_adds_only_what_the_deltas_did_not_say(client: Client) -> None:
    happenings = await ask(client, stream(said("a"), completed("ab", "c")), "responses")

    assert text_of(happenings) == "abc"


async def test_text_that_comes_long_after_a_finish_reason_is_not_cut_off(client: Client) -> None:
    gap = [PAUSE] * 30
    script = [head(), chunk(delta("stop", content="a")), *gap, chunk(delta(content="b")), *gap,
              chunk(delta(content="c")), *gap, chunk(DONE), END]  # fmt: skip

    assert text_of(await ask(client, script)) == "abc"


async def test_a_sentinel_after_nothing_is_not_an_answer(client: Client) -> None:
    failure, _ = await fail(client, stream(delta(reasoning="hm"), DONE))

    assert (failure.kind, failure.retryable) == ("empty", True)


async def test_a_reader_that_stops_at_the_end_leaves_the_connection_usable(client: Client) -> None:
    async with WireServer(stream(delta("stop", content="a") + USAGE + DONE)) as server:
        for _ in range(3):
            lists = client.stream(REQUEST, key_for(server))
            while not isinstance((await anext(lists))[-1], Finished):
                pass
            await lists.aclose()
            while client.open_streams:
                await asyncio.sleep(0.005)

        assert server.connections == 1
