"""A parameter a provider does not take is left out once, remembered, and said in the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.harness.asking import REQUEST, SECRET, key_for, quick_client
from tests.harness.wire import DONE, Received, Script, WireServer, delta, plain, stream
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.request import Request

LIMITED = msgspec.structs.replace(REQUEST, max_output_tokens=50)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


class Picky:
    """A provider that refuses some parameters, in one of the ways providers say it."""

    def __init__(self, *refused: str, says: str = "Unknown parameter: '{}'.", named: bool = True):
        self.refused, self.says, self.named = refused, says, named

    def __call__(self, received: Received) -> Script:
        for name in self.refused:
            if name in received.body:
                error = {"message": self.says.format(name), "type": "invalid_request_error"}
                error |= {"code": "unknown_parameter", "param": name} if self.named else {}
                return [plain("400 Bad Request", json.dumps({"error": error}).encode())]
        return stream(delta("stop", content="a"), DONE)


async def ask(client: Client, server: WireServer, request: Request = REQUEST) -> None:
    async for _ in client.stream(request, key_for(server)):
        pass


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ("Unknown parameter: '{}'.", True),
        ("Unrecognized request argument supplied: {}", False),
        ("Extra inputs are not permitted: {}", False),
        ("property '{}' is unsupported", False),
    ],
)
async def test_a_refused_parameter_is_left_out_and_remembered(
    client: Client, says: str, named: bool
) -> None:
    async with WireServer(Picky("max_reasoning_tokens", says=says, named=named)) as server:
        with capture_logs() as logs:
            await ask(client, server)
            await ask(client, server)
        sent = ["max_reasoning_tokens" in received.body for received in server.requests]

    assert sent == [True, False, False]
    dropped = [entry for entry in logs if entry["event"] == "upstream.parameter_dropped"]
    assert [entry["parameter"] for entry in dropped] == ["max_reasoning_tokens"]
    assert SECRET not in str(logs)
    assert "say hello" not in str(logs)


async def test_of_two_parameters_named_the_first_is_the_refused_one(client: Client) -> None:
    says = "'{}' is not supported by this model; set reasoning_effort instead"
    async with WireServer(Picky("max_reasoning_tokens", says=says, named=False)) as server:
        await ask(client, server)

        assert len(server.requests) == 2
        assert "reasoning_effort" in server.requests[1].body


async def test_several_refused_parameters_are_left_out_one_by_one(client: Client) -> None:
    picky = Picky("max_reasoning_tokens", "reasoning_chunk_buffer", "reasoning_effort")
    async with WireServer(picky) as server:
        await ask(client, server)

        assert len(server.requests) == 4


async def test_a_refusal_is_remembered_for_its_model_only(client: Client) -> None:
    async with WireServer(Picky("reasoning_effort")) as server:
        await ask(client, server)
        await ask(client, server, msgspec.structs.replace(REQUEST, model="other"))

        assert ["reasoning_effort" in r.body for r in server.requests] == [True, False, True, False]


async def test_an_output_limit_is_renamed_and_not_lost(client: Client) -> None:
    says = "Unsupported parameter: '{}' is not supported. Use 'max_completion_tokens' instead."
    async with WireServer(Picky("max_tokens", says=says)) as server:
        await ask(client, server, LIMITED)

        assert server.requests[1].body["max_completion_tokens"] == 50


async def test_a_parameter_the_job_asked_for_is_not_taken_away(client: Client) -> None:
    request = msgspec.structs.replace(REQUEST, extra_body={"reasoning_effort": "high"})
    async with WireServer(Picky("reasoning_effort")) as server:
        with pytest.raises(UpstreamFailure, match="reasoning_effort") as caught:
            await ask(client, server, request)

        assert len(server.requests) == 1
    assert (caught.value.fault, caught.value.param) == ("request", "reasoning_effort")


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Your organization must be verified to stream this model.", "stream"),
        ("Unknown parameter: 'model'.", "model"),
        ("messages: text is too long for max_tokens", None),
        ("Invalid value for 'temperature'.", "temperature"),
    ],
)
async def test_what_cannot_be_left_out_is_a_failure(
    client: Client, message: str, param: str | None
) -> None:
    error = {"message": message, "param": param, "code": "unsupported_value" if param else None}
    answer = [plain("400 Bad Request", json.dumps({"error": error}).encode())]
    async with WireServer(answer) as server:
        with pytest.raises(UpstreamFailure, match=r"400"):
            await ask(client, server, LIMITED)

        assert len(server.requests) == 1
