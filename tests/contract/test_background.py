"""Background responses: taken up again without losing or repeating a character."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from tests.harness.asking import REQUEST, key_for, quick_client, text_of
from tests.harness.wire import Received, Script, WireServer, event, plain, stream
from worker.outcomes import Outcome
from worker.upstream import client as client_module
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished, Happening, Resumable, Text

COMPLETED = Finished(Outcome.COMPLETED, "completed")
BACKGROUND = msgspec.structs.replace(REQUEST, extra_body={"background": True})
WORDS = ["one ", "two ", "three ", "four"]
ANSWER = "".join(WORDS)


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(client_module, "POLL_S", 0.01)
    async with quick_client() as client:
        yield client


def whole(status: str = "completed", text: str = ANSWER) -> dict[str, object]:
    part = {"type": "output_text", "text": text}
    return {"id": "resp_1", "object": "response", "status": status, "background": True,
            "output": [{"id": "m", "type": "message", "content": [part]}]}  # fmt: skip


def events() -> list[bytes]:
    created = {"type": "response.created", "response": {"id": "resp_1", "background": True}}
    deltas = [{"type": "response.output_text.delta", "item_id": "m", "delta": w} for w in WORDS]
    done = {"type": "response.output_text.done", "item_id": "m", "text": ANSWER}
    completed = {"type": "response.completed", "response": whole()}
    documents = [created, *deltas, done, completed]
    return [event({**d, "sequence_number": n}) for n, d in enumerate(documents)]


def provider(received: Received) -> Script:
    """Cuts the first connection after two words; then streams what comes after the cursor."""
    if received.method == "POST":
        assert received.body["background"] is True
        return stream(*events()[:3])
    after = int(parse_qs(urlsplit(received.path).query)["starting_after"][0])
    return stream(*events()[after + 1 :])


async def read(batches: AsyncIterator[list[Happening]], seen: list[Happening]) -> None:
    async for batch in batches:
        seen += batch


async def cut_stream(client: Client, server: WireServer) -> list[Happening]:
    seen: list[Happening] = []
    with pytest.raises(UpstreamFailure) as caught:
        await read(client.stream(BACKGROUND, key_for(server, "responses")), seen)
    assert caught.value.kind == "truncated"
    return seen


async def test_a_cut_response_is_taken_up_where_it_stopped(client: Client) -> None:
    async with WireServer(provider) as server:
        seen = await cut_stream(client, server)
        cursor = [h for h in seen if isinstance(h, Resumable)][-1]
        assert (text_of(seen), cursor) == ("one two ", Resumable("resp_1", 2))

        await read(client.resume(key_for(server, "responses"), cursor, text_of(seen)), seen)

    assert text_of(seen) == ANSWER
    assert seen[-1] == COMPLETED
    assert server.requests[1].path == "/v1/responses/resp_1?stream=true&starting_after=2"


@pytest.mark.parametrize("at", range(6))
async def test_wherever_it_is_taken_up_the_text_is_whole(client: Client, at: int) -> None:
    said = "".join(WORDS[: min(at, 4)])

    async with WireServer(provider) as server:
        rest: list[Happening] = []
        resumed = client.resume(key_for(server, "responses"), Resumable("resp_1", at), said)
        await read(resumed, rest)

    assert said + text_of(rest) == ANSWER


async def test_a_server_that_replays_from_the_beginning_repeats_nothing(client: Client) -> None:
    async with WireServer(stream(*events())) as server:
        rest: list[Happening] = []
        await read(
            client.resume(key_for(server, "responses"), Resumable("resp_1", 2), "one two "), rest
        )

    assert text_of(rest) == "three four"


async def test_a_response_too_old_to_stream_is_polled_and_its_rest_delivered(
    client: Client,
) -> None:
    answers = iter(["queued", "in_progress", "completed"])

    def old(received: Received) -> Script:
        if "stream=true" in received.path:
            return [plain("400 Bad Request", b'{"error":{"message":"too old to stream"}}')]
        return [plain("200 OK", json.dumps(whole(next(answers))).encode())]

    async with WireServer(old) as server:
        rest: list[Happening] = []
        await read(
            client.resume(key_for(server, "responses"), Resumable("resp_1", 2), "one two "), rest
        )

    assert rest == [Text("three four"), COMPLETED]


async def test_a_polled_answer_that_contradicts_what_was_said_adds_nothing(client: Client) -> None:
    def other(received: Received) -> Script:
        if "stream=true" in received.path:
            return [plain("400 Bad Request", b'{"error":{"message":"too old to stream"}}')]
        return [plain("200 OK", json.dumps(whole(text="something else")).encode())]

    async with WireServer(other) as server:
        rest: list[Happening] = []
        await read(client.resume(key_for(server, "responses"), Resumable("r", 2), "one "), rest)

    assert rest == [COMPLETED]


async def test_a_response_that_is_gone_is_a_failure(client: Client) -> None:
    gone = [plain("404 Not Found", b'{"error":{"message":"no such response"}}')]
    async with WireServer(gone) as server:
        with pytest.raises(UpstreamFailure, match="no such response") as caught:
            await read(client.resume(key_for(server, "responses"), Resumable("r", 2)), [])

    assert (caught.value.kind, caught.value.retryable) == ("not_found", False)


async def test_a_response_is_cancelled_at_the_provider(client: Client) -> None:
    async with WireServer([plain("200 OK", b'{"status":"cancelled"}')]) as server:
        await client.cancel(key_for(server, "responses"), "resp_1")

        assert (server.requests[0].method, server.requests[0].path) == (
            "POST",
            "/v1/responses/resp_1/cancel",
        )
