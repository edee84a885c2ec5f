"""The form of OpenAI's Responses, read by this project's own client and over the wire."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from settings.model import Key
from settings.secret import Secret
from tasks.gateway import tokens
from tasks.gateway.responses import cursor_of, number_of
from tasks.gateway.tokens import Scope
from tests.harness.asking import REQUEST, quick_client, text_of
from tests.harness.cluster import Cluster
from tests.harness.gateway import Gateway
from tests.harness.waiting import wait_until
from worker.log import reader
from worker.log.cursor import START, Cursor
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.happenings import Finished, Resumable

PLAIN = msgspec.structs.replace(REQUEST, model="sim:plain", effort=None)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


@pytest.fixture
async def ours() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


def key(gateway: Gateway, shared: Cluster) -> Key:
    _, token = tokens.create(shared.client, "provider", (Scope.SUBMIT, Scope.READ))
    return Key(
        alias="k",
        provider="responses",
        base_url=f"{gateway.url}/v1",
        secret=Secret(token),
        account="a",
        api="responses",
    )


def streamed(client: httpx.Client, method: str, path: str, **options: Any) -> list[dict[str, Any]]:
    found = []
    with client.stream(method, path, **options) as reply:
        assert reply.status_code == 200, reply.read()
        for line in reply.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
    return found


def created(client: httpx.Client, model: str = "sim:plain", **more: object) -> dict[str, Any]:
    body = {"model": model, "input": "hello", "background": True, **more}
    reply = client.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    made: dict[str, Any] = reply.json()
    return made


def test_a_number_is_a_cursor_and_a_cursor_a_number() -> None:
    for cursor in (Cursor(1, 0), Cursor(1, 7), Cursor(3, 2**32 - 1), Cursor(500_000, 1)):
        for part in range(4):
            assert cursor_of(number_of(cursor, part)) == cursor
            assert number_of(cursor, part) < 2**53
    assert [cursor_of(number) for number in range(4)] == [START] * 4


async def test_our_own_client_reads_a_response_to_its_end(
    gateway: Gateway, shared: Cluster, ours: Client
) -> None:
    seen = [h async for batch in ours.stream(PLAIN, key(gateway, shared)) for h in batch]
    response = next(h for h in seen if isinstance(h, Resumable)).response_id
    job = response.removeprefix("resp_")
    assert text_of(seen) == reader.text_of(shared.client, job)
    assert isinstance(seen[-1], Finished)
    assert seen[-1].outcome is Outcome.COMPLETED


def test_a_stream_can_be_taken_up_behind_any_of_its_events(client: httpx.Client) -> None:
    body = {"model": "sim:plain", "input": "hello", "stream": True}
    events = streamed(client, "POST", "/v1/responses", json=body)
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text
    path = f"/v1/responses/{events[0]['response']['id']}"
    for at in (0, 1, 2, 3, 4, len(events) // 2, len(events) - 4, len(events) - 2):
        query = {"stream": "true", "starting_after": str(numbers[at])}
        rest = streamed(client, "GET", path, params=query)
        assert [e["sequence_number"] for e in rest] == numbers[at + 1 :]
        deltas = [e for e in events[at + 1 :] if e["type"] == "response.output_text.delta"]
        assert [e for e in rest if e["type"] == "response.output_text.delta"] == deltas


def test_a_background_response_goes_from_queued_to_completed(
    client: httpx.Client, shared: Cluster
) -> None:
    (worker,) = shared.alive()
    pid = int(worker.removeprefix("longstream-").partition("@")[0])
    # An idle worker may begin before the answer is written.
    os.kill(pid, signal.SIGSTOP)
    try:
        made = created(client, instructions="Be brief.")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert made["status"] == "queued"
    path = f"/v1/responses/{made['id']}"
    wait_until("it ends", lambda: client.get(path).json()["status"] == "completed")
    done = client.get(path).json()
    assert done["output"][0]["content"][0]["text"]
    assert done["usage"]["output_tokens"] > 0


def test_one_that_is_awaited_is_answered_at_its_end(client: httpx.Client) -> None:
    assert created(client, background=False)["status"] == "completed"
    assert created(client, "sim:length", background=False)["incomplete_details"] == {
        "reason": "max_output_tokens"
    }
    refused = created(client, "sim:refuse", background=False)
    assert (refused["status"], refused["error"]["code"]) == ("failed", "refused")


def test_a_client_that_leaves_while_it_awaits_a_response_is_no_reader_any_more(
    gateway: Gateway, client: httpx.Client
) -> None:
    def readers() -> float:
        lines = client.get("/metrics").text.splitlines()
        (told,) = [each for each in lines if "gateway_readers " in each and each[0] != "#"]
        return float(told.split()[-1])

    body = json.dumps({"model": "sim:stall", "input": "hello"}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    before = readers()
    with socket.create_connection(("127.0.0.1", gateway.port), 5) as link:
        link.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        wait_until("it is counted", lambda: readers() == before + 1)
    wait_until("it is counted no more", lambda: readers() == before)


def test_a_response_is_cancelled(client: httpx.Client) -> None:
    path = f"/v1/responses/{created(client, 'sim:stall')['id']}"
    assert client.post(f"{path}/cancel").status_code == 200
    wait_until("it is cancelled", lambda: client.get(path).json()["status"] == "cancelled")


@pytest.mark.parametrize(
    "body",
    [
        {"input": "x", "temperature": 1},
        {"input": "x", "store": False},
        {"input": []},
        {"input": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
        {"input": [{"role": "assistant", "content": "a"}]},
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused_and_not_left_out(
    client: httpx.Client, body: dict[str, object]
) -> None:
    reply = client.post("/v1/responses", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid")
    assert reply.json()["error"]["message"].startswith("The request can not be carried out: ")


def test_a_message_may_come_in_parts(client: httpx.Client) -> None:
    parts = [{"type": "input_text", "text": "Why is the"}, {"type": "input_text", "text": "sky?"}]
    whole = {"model": "sim:plain", "input": "Why is the\n\nsky?"}
    said = {"type": "message", "role": "user", "content": parts}

    first = client.post("/v1/responses", json=whole).json()
    again = client.post("/v1/responses", json=whole | {"input": [said]}).json()

    assert again["status"] == "completed"
    assert again["output"][0]["content"] == first["output"][0]["content"]


def test_the_official_client_tells_what_is_wrong(gateway: Gateway, shared: Cluster) -> None:
    openai = pytest.importorskip("openai")
    provider = key(gateway, shared)
    options = {"api_key": provider.secret.get_secret_value(), "max_retries": 0}
    with openai.OpenAI(base_url=provider.base_url, **options) as sdk:
        with pytest.raises(openai.NotFoundError, match="no job nope") as missing:
            sdk.responses.retrieve("resp_nope")
        with pytest.raises(openai.UnprocessableEntityError, match="unknown field `temperature`"):
            sdk.responses.create(model="sim:plain", input="x", temperature=0.5)
        with pytest.raises(openai.NotFoundError, match="Nothing is here"):
            sdk.models.list()
    assert missing.value.code == "unknown_job"
