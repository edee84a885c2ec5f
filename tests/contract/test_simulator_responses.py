"""The simulator's Responses API: background streams that are joined again, polled, cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.simulated import payloads, responses_ask, responses_text, sent, steps
from tests.harness.simulator import Simulator, Source
from tests.harness.waiting import wait_until

RESPONSES = "/v1/responses"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    process = Simulator()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def paced() -> Iterator[Simulator]:
    process = Simulator(speed="20")
    yield process
    process.stop()


def body(prompt: str, model: str = "gpt-5.5-codex", **more: Any) -> dict[str, Any]:
    return {"model": model, "input": prompt, "stream": True, "background": True} | more


def id_in(stream: bytes) -> str:
    found: str = payloads(stream)[0]["response"]["id"]
    return found


def test_a_foreground_stream_is_exactly_what_the_pure_part_says(simulator: Simulator) -> None:
    reply = simulator.call(RESPONSES, body("plain", background=False))

    assert reply.body == sent(steps(responses_ask("plain", background=False)))
    assert simulator.entry(reply.request_id)["visible_sent"] == responses_text(reply.body)


def test_a_finished_foreground_response_can_be_retrieved(simulator: Simulator) -> None:
    reply = simulator.call(RESPONSES, body("kept", background=False))

    found = simulator.call(f"{RESPONSES}/{id_in(reply.body)}").json()

    assert found == payloads(reply.body)[-1]["response"]


def test_a_dropped_foreground_response_is_gone(simulator: Simulator) -> None:
    reply = simulator.call(RESPONSES, body("dropped", "sim:reset", background=False))

    assert reply.reset
    assert simulator.call(f"{RESPONSES}/{id_in(reply.body)}").status == 404


@pytest.mark.parametrize("model", ["sim:reset", "sim:eof"])
def test_a_cut_background_stream_goes_on_after_the_last_event_seen(
    simulator: Simulator, model: str
) -> None:
    first = simulator.call(RESPONSES, body("joined again", model))
    seen = payloads(first.body)[-1]["sequence_number"]

    path = f"{RESPONSES}/{id_in(first.body)}?stream=true&starting_after={seen}"
    second = simulator.call(path)

    entry = simulator.entry(first.request_id)
    assert responses_text(first.body) + responses_text(second.body) == entry["visible"]
    assert payloads(second.body)[0]["sequence_number"] == seen + 1
    assert payloads(second.body)[-1]["type"] == "response.completed"
    assert simulator.entry(second.request_id)["visible_sent"] == responses_text(second.body)


def test_a_background_response_can_be_polled_to_its_end(paced: Simulator) -> None:
    created = paced.call(RESPONSES, body("polled", "sim:plain", stream=False))
    name = created.json()["id"]
    assert created.json()["status"] == "queued"

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = paced.call(f"{RESPONSES}/{name}").json()
        return found if found["status"] == "completed" else None

    text = wait_until("the response is completed", ended)["output"][-1]["content"][0]["text"]
    assert text == paced.entry(created.request_id)["visible"]


def test_a_cancelled_response_stays_cancelled_and_its_streams_end(paced: Simulator) -> None:
    created = paced.call(RESPONSES, body("cancelled", "sim:slow", stream=False))
    name = created.json()["id"]

    cancelled = paced.call(f"{RESPONSES}/{name}/cancel", {}).json()
    assert cancelled["status"] == "cancelled"
    assert paced.call(f"{RESPONSES}/{name}").json()["status"] == "cancelled"
    assert paced.entry(created.request_id)["usage"]["completion_tokens"] < 1_000


def test_cancelling_ends_a_running_stream_without_a_terminal_event(paced: Simulator) -> None:
    with paced.ask(RESPONSES, body("stopped", "sim:slow")) as link:
        source = Source(link)
        source.head()
        name = id_in(source.chunk() or b"")
        paced.call(f"{RESPONSES}/{name}/cancel", {})
        stream, complete = source.chunks()

    assert complete
    assert not [e for e in payloads(b"".join(stream)) if e["type"] == "response.completed"]


@pytest.mark.parametrize(
    ("more", "status"),
    [({"background": False}, 400), ({"stream": False}, 400), ({}, 200)],
)
def test_only_a_streamed_background_response_can_be_joined(
    simulator: Simulator, more: dict[str, Any], status: int
) -> None:
    reply = simulator.call(RESPONSES, body("may it", **more))
    name = reply.json()["id"] if "stream" in more else id_in(reply.body)

    assert simulator.call(f"{RESPONSES}/{name}?stream=true&starting_after=3").status == status


def test_the_same_background_request_twice_is_two_responses(simulator: Simulator) -> None:
    first, second = (simulator.call(RESPONSES, body("twice")).body for _ in range(2))

    assert id_in(first) != id_in(second)
    assert responses_text(first) == responses_text(second)


def test_an_unknown_response_is_not_found(simulator: Simulator) -> None:
    assert simulator.call(f"{RESPONSES}/resp_0").status == 404
    assert simulator.call(f"{RESPONSES}/resp_0/cancel", {}).status == 404
