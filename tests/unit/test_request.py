"""The profile decides what is sent, and a job cannot take over what the client answers for."""

from __future__ import annotations

import msgspec
import pytest

from settings.profiles import PROFILES, Profile
from worker.upstream.failures import UpstreamFailure
from worker.upstream.request import Message, Request, body_for

REQUEST = Request(model="m", messages=(Message("user", "hi"),))


def test_a_gateway_gets_its_parameters_at_the_top_level() -> None:
    assert body_for(REQUEST, PROFILES["holysheep"]) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "low",
        "max_reasoning_tokens": 4096,
        "reasoning_chunk_buffer": 256,
    }


def test_a_provider_is_not_sent_what_it_does_not_take() -> None:
    body = body_for(REQUEST, PROFILES["openai"])

    assert body["reasoning_effort"] == "low"
    assert not {"max_reasoning_tokens", "reasoning_chunk_buffer"} & body.keys()
    assert "reasoning_effort" not in body_for(REQUEST, PROFILES["generic"])


def test_a_dropped_parameter_is_left_out() -> None:
    body = body_for(REQUEST, PROFILES["holysheep"], frozenset({"max_reasoning_tokens"}))

    assert "max_reasoning_tokens" not in body
    assert body["reasoning_chunk_buffer"] == 256


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        (PROFILES["openai"], "max_completion_tokens"),
        (PROFILES["generic"], "max_tokens"),
        (Profile(name="r", base_url=None, dialect="responses"), "max_output_tokens"),
    ],
)
def test_the_output_limit_has_the_name_the_provider_knows(profile: Profile, name: str) -> None:
    request = msgspec.structs.replace(REQUEST, max_output_tokens=7)

    limits = {key: value for key, value in body_for(request, profile).items() if "max_" in key}
    assert limits == {name: 7}


def test_responses_asks_in_its_own_words() -> None:
    profile = Profile(
        name="r", base_url=None, dialect="responses", takes=frozenset({"reasoning_effort"})
    )

    assert body_for(msgspec.structs.replace(REQUEST, effort="high"), profile) == {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}],
        "stream": True,
        "reasoning": {"effort": "high"},
    }


def test_extra_body_is_merged_and_wins() -> None:
    request = msgspec.structs.replace(
        REQUEST, extra_body={"temperature": 0, "max_reasoning_tokens": 9}
    )

    body = body_for(request, PROFILES["holysheep"])
    assert (body["temperature"], body["max_reasoning_tokens"]) == (0, 9)


@pytest.mark.parametrize("field", ["model", "stream", "messages", "input", "n"])
def test_a_reserved_field_in_extra_body_is_refused_by_name(field: str) -> None:
    request = msgspec.structs.replace(REQUEST, extra_body={field: 1})

    with pytest.raises(UpstreamFailure, match=f"extra_body may not set {field}") as caught:
        body_for(request, PROFILES["generic"])
    assert (caught.value.fault, caught.value.retryable) == ("request", False)


def test_a_request_round_trips_through_json() -> None:
    request = Request(
        model="m", messages=(Message("user", "é"),), effort="high", extra_body={"a": [1]}
    )

    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request
