"""Every scenario on a real socket: the bytes, the writes and the end that its script says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks.local.simulator.scenarios import every
from tasks.local.simulator.steps import Ending, Framing, Head, Raw, Send, Step
from tests.harness.simulated import chat_ask, responses_ask, steps
from tests.harness.simulator import Simulator, read_reply, read_request_id

SCENARIOS = every()

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    process = Simulator()
    yield process
    process.stop()


def asked(name: str, dialect: str) -> tuple[dict[str, Any], list[Step]]:
    """A request's body, and the script that answers it."""
    prompt = f"on the wire: {dialect}"
    if dialect == "chat":
        messages = [{"role": "user", "content": prompt}]
        body = {"model": name, "stream": True, "messages": messages}
        return body, steps(chat_ask(prompt, name))
    return {"model": name, "stream": True, "input": prompt}, steps(responses_ask(prompt, name))


CASES = [
    (name, dialect, asked(name, dialect)[1])
    for name, scenario in SCENARIOS.items()
    for dialect in PATHS
    if scenario.speaks(dialect) and "endless" not in name
]
BEGUN = [case for case in CASES if any(isinstance(step, Head) for step in case[2])]
ENDING = [case[:2] for case in BEGUN if case[2][-1] is not Ending.HANG]
OPEN = [case[:2] for case in BEGUN if case[2][-1] is Ending.HANG]


@pytest.mark.parametrize(("name", "dialect"), ENDING)
def test_a_scenario_is_performed_as_its_script_says(
    simulator: Simulator, name: str, dialect: str
) -> None:
    body, script = asked(name, dialect)
    writes = [step.data for step in script if isinstance(step, Send)]
    head = next(step for step in script if isinstance(step, Head))

    with simulator.ask(PATHS[dialect], body) as link:
        reply = read_reply(link)

    assert reply.status == head.status
    if head.framing is Framing.CHUNKED and not any(isinstance(step, Raw) for step in script):
        assert reply.chunks == writes
    else:
        assert reply.body.startswith(b"".join(writes))
    assert reply.complete == (script[-1] not in (Ending.CUT, Ending.RESET))
    assert reply.reset == (script[-1] is Ending.RESET)


@pytest.mark.parametrize(("name", "dialect"), OPEN)
def test_an_answer_without_an_end_stays_open_until_the_client_leaves(
    simulator: Simulator, name: str, dialect: str
) -> None:
    body, script = asked(name, dialect)
    writes = [step.data for step in script if isinstance(step, Send)]

    with simulator.ask(PATHS[dialect], body) as link:
        request_id = read_request_id(link)
        entry = simulator.entry_once(request_id, "finished")
        assert entry["ending"] == "hang"
        assert entry["bytes_sent"] == sum(map(len, writes))
        assert not entry["client_disconnected"]

    assert simulator.entry_once(request_id, "client_disconnected")


def test_no_headers_means_no_byte(simulator: Simulator) -> None:
    body, _ = asked("sim:r7-no-headers", "chat")

    with simulator.ask(PATHS["chat"], body) as link:
        link.settimeout(0.2)
        with pytest.raises(TimeoutError):
            link.recv(1)


def test_a_reset_before_headers_is_a_reset(simulator: Simulator) -> None:
    body, _ = asked("sim:r6-reset-before-headers", "chat")

    with simulator.ask(PATHS["chat"], body) as link, pytest.raises(ConnectionResetError):
        link.recv(1)


def test_a_followed_redirect_is_answered(simulator: Simulator) -> None:
    body, _ = asked("sim:q24-307", "chat")
    target = simulator.call(PATHS["chat"], body).headers["location"]

    assert simulator.call(target, body).body.endswith(b"data: [DONE]\n\n")


def test_a_scenario_of_one_dialect_is_refused_in_the_other(simulator: Simulator) -> None:
    reply = simulator.call(PATHS["responses"], {"model": "sim:q46-no-done", "input": "x"})

    assert (reply.status, reply.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize(("name", "status"), [("resume-old", 400), ("resume-gone", 404)])
def test_a_stream_that_cannot_be_joined_again_can_still_be_polled(
    simulator: Simulator, name: str, status: int
) -> None:
    place, entry = begun(simulator, f"sim:{name}")

    assert simulator.call(f"{place}?stream=true&starting_after=3").status == status
    polled = simulator.call(place).json()
    assert polled["output"][-1]["content"][0]["text"] == entry["visible"]


def test_a_stream_that_breaks_again_and_again_is_whole_in_the_end(simulator: Simulator) -> None:
    place, entry = begun(simulator, "sim:resume-reset")
    cursor = -1
    text, rounds = "", 0
    while len(text) < len(entry["visible"]):
        reply = simulator.call(f"{place}?stream=true&starting_after={cursor}")
        text += simulator.entry(reply.request_id)["visible_sent"]
        cursor = last_number(reply.body)
        rounds += 1

    assert text == entry["visible"]
    assert rounds > 2


def test_a_replay_from_the_start_repeats_what_was_seen(simulator: Simulator) -> None:
    place, _ = begun(simulator, "sim:resume-replay")

    assert b'"sequence_number":0}' in simulator.call(f"{place}?stream=true&starting_after=9").body


def begun(simulator: Simulator, name: str) -> tuple[str, dict[str, Any]]:
    """A background response whose first stream was broken: its place, its ledger entry."""
    body, _ = asked(name, "responses")
    with simulator.ask(PATHS["responses"], body | {"background": True}) as link:
        reply = read_reply(link)
    response = reply.body.split(b'"id":"')[1].split(b'"')[0].decode()
    return f"/v1/responses/{response}", simulator.entry(reply.request_id)


def last_number(body: bytes) -> int:
    return int(body.rpartition(b'"sequence_number":')[2].partition(b"}")[0])
