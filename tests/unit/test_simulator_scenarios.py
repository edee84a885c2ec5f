"""Every scenario: repeatable, honest towards the ledger, and what its name says."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tasks.local.simulator.ask import Ask
from tasks.local.simulator.beats import Kind, beats
from tasks.local.simulator.scenarios import edits, every, faults, field, models, quirks
from tasks.local.simulator.steps import Ending, Head, Send, Step
from tests.harness.simulated import (
    chat_ask,
    chat_text,
    payloads,
    responses_ask,
    responses_text,
    sent,
    steps,
)

SCENARIOS = every()

DIALECTS = {"chat": chat_ask, "responses": responses_ask}
EVERY = [
    (name, dialect)
    for name, scenario in SCENARIOS.items()
    for dialect in DIALECTS
    if scenario.dialect in (dialect, "both")
]


def ask_for(name: str, dialect: str, **more: object) -> Ask:
    return DIALECTS[dialect](model=name, **more)


@cache
def script_of(name: str, dialect: str, *, stream: bool) -> list[Step]:
    return steps(ask_for(name, dialect, stream=stream))


def test_no_two_scenarios_share_a_name() -> None:
    listed = (
        *models.SCENARIOS,
        *edits.SCENARIOS,
        *faults.SCENARIOS,
        *field.SCENARIOS,
        *quirks.SCENARIOS,
    )

    assert len(SCENARIOS) == len(listed)


@pytest.mark.parametrize(("name", "dialect"), EVERY)
def test_the_same_request_gets_the_same_bytes_and_pace(name: str, dialect: str) -> None:
    assert steps(ask_for(name, dialect, stream=True)) == script_of(name, dialect, stream=True)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("name", "dialect"), EVERY)
def test_what_counts_as_sent_is_a_prefix_of_what_was_intended(
    name: str, dialect: str, *, stream: bool
) -> None:
    ask = ask_for(name, dialect, stream=stream)
    intended = SCENARIOS[name].intended(ask).text

    script = script_of(name, dialect, stream=stream)

    counted = "".join(step.text for step in script if isinstance(step, Send))
    assert intended.startswith(counted)
    assert sum(isinstance(step, Head) for step in script) <= 1


@settings(max_examples=20)
@given(st.text(max_size=30), st.sampled_from(["gpt-5.5-codex", "sim:plain", "sim:think"]))
def test_the_text_of_a_chat_stream_is_the_text_of_the_ledger(prompt: str, model: str) -> None:
    ask = chat_ask(prompt, model)

    assert chat_text(sent(steps(ask))) == SCENARIOS[model].intended(ask).text


@settings(max_examples=20)
@given(st.text(max_size=30))
def test_the_text_of_a_responses_stream_is_the_text_of_the_ledger(prompt: str) -> None:
    ask = responses_ask(prompt)
    body = sent(steps(ask))
    events = payloads(body)

    assert responses_text(body) == SCENARIOS[ask.model].intended(ask).text
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"


def test_the_usage_of_a_stream_is_what_the_ledger_bills() -> None:
    script = steps(chat_ask(stream_options={"include_usage": True}))
    sends = [step for step in script if isinstance(step, Send)]

    usage = payloads(sent(script))[-1]["usage"]

    thinking = sum(send.thinking_tokens for send in sends)
    assert usage["completion_tokens_details"]["reasoning_tokens"] == thinking > 0
    assert usage["completion_tokens"] == thinking + sum(send.text_tokens for send in sends)


def test_a_stream_has_a_role_chunk_a_finish_and_the_sentinel() -> None:
    body = sent(steps(chat_ask(model="sim:plain")))
    chunks = payloads(body)

    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert body.endswith(b"data: [DONE]\n\n")


def test_a_clump_of_1800_tokens_is_one_write_of_about_70_kilobytes() -> None:
    ask = chat_ask("held back", "sim:think")
    found = [
        step
        for number in range(20)
        for step in steps(chat_ask(f"held back {number}", "sim:think"))
        if isinstance(step, Send) and step.thinking_tokens == 1_800
    ]

    assert found
    assert all(60_000 < len(step.data) < 80_000 for step in found)
    assert any(beat.joined for beat in beats(ask, SCENARIOS["sim:think"].intended(ask)))


@pytest.mark.parametrize(
    ("name", "ending"),
    [("sim:reset", Ending.RESET), ("sim:stall", Ending.HANG)],
)
def test_a_cut_stream_carries_half_of_the_text(name: str, ending: Ending) -> None:
    ask = chat_ask(model=name)
    script = steps(ask)

    tokens = sum(step.text_tokens for step in script if isinstance(step, Send))
    assert tokens == len(SCENARIOS[name].intended(ask).tokens) // 2
    assert script[-1] is ending


@pytest.mark.parametrize(
    ("name", "finish"),
    [("sim:length", "length"), ("sim:filter", "content_filter"), ("sim:eof", None)],
)
def test_an_early_end_has_its_own_reason(name: str, finish: str | None) -> None:
    last = payloads(sent(steps(chat_ask(model=name))))[-1]

    assert last["choices"][0]["finish_reason"] == finish


def test_a_flaky_prompt_fails_once_and_about_one_in_ten_does() -> None:
    asks = [chat_ask(f"flaky {number}", "sim:flaky") for number in range(100)]
    failed = [ask for ask in asks if not sent(steps(ask)).endswith(b"[DONE]\n\n")]

    assert 5 < len(failed) < 17
    again = [msgspec.structs.replace(ask, nth=2) for ask in failed]
    assert all(sent(steps(ask)).endswith(b"[DONE]\n\n") for ask in again)


def test_a_refusal_is_not_content() -> None:
    body = sent(steps(chat_ask(model="sim:refuse")))

    assert chat_text(body) == ""
    assert chat_text(body, "refusal").startswith("Simulated refusal")


def test_broken_json_breaks_one_event_only() -> None:
    body = sent(steps(chat_ask(model="sim:badjson")))
    broken = 0
    for line in body.splitlines():
        try:
            json.loads(line.removeprefix(b"data: ") or b"null")
        except ValueError:
            broken += line != b"data: [DONE]"

    assert broken == 1


def test_a_request_without_stream_gets_the_same_text_as_one_object() -> None:
    whole = json.loads(sent(steps(chat_ask(stream=False))))
    other = json.loads(sent(steps(responses_ask(stream=False))))

    text = SCENARIOS["gpt-5.5-codex"].intended(chat_ask()).text
    assert whole["choices"][0]["message"]["content"] == text
    assert other["output"][-1]["content"][0]["text"] == text


def test_every_kind_of_beat_occurs_in_the_family() -> None:
    ask = chat_ask("all of it")

    assert {beat.kind for beat in beats(ask, SCENARIOS[ask.model].intended(ask))} == set(Kind)
