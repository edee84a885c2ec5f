"""From the body of a request to ours, and from an answer to the body of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from settings.profiles import PROFILES
from tasks.batches.answers import Answer, tokens_in
from tasks.batches.bodies import CHAT, RESPONSES, request_of
from tasks.batches.reading import AnswerOfBody
from worker.admission.estimates import estimate
from worker.errors import LongstreamError
from worker.log.entries import Tokens
from worker.upstream.happenings import ToolCall
from worker.upstream.request import Message, body_for

USAGE = {"input": 3, "cached": 1, "output": 5, "reasoning": 2}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]


def chat(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "?"}]} | more


def sent(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """What reaches a provider that speaks the same API."""
    profile = PROFILES["openai"]
    return body_for(request_of(url, body), profile)


def test_what_longstream_has_a_word_for_is_translated() -> None:
    request = request_of(CHAT, chat(max_tokens=7, reasoning_effort="high", stream=True, n=1))

    assert (request.max_output_tokens, request.effort, request.extra_body) == (7, "high", {})


def test_the_newer_name_of_the_limit_wins() -> None:
    assert request_of(CHAT, chat(max_tokens=7, max_completion_tokens=9)).max_output_tokens == 9


def test_everything_else_reaches_the_provider_as_it_stands() -> None:
    more = {
        "tools": TOOLS,
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "temperature": 0,
        "seed": 7,
        "metadata": {"a": "b"},
    }

    assert sent(CHAT, chat(**more)).items() >= more.items()


def test_a_conversation_with_tools_and_pictures_reaches_the_provider_as_it_stands() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "?"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "3", "tool_call_id": "c"},
    ]

    assert sent(CHAT, chat(messages=messages))["messages"] == messages


def test_parts_that_are_nothing_but_text_become_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    request = request_of(CHAT, chat(messages=[{"role": "user", "content": parts}]))

    assert request.messages == (Message("user", "ab"),)


def test_a_request_for_the_other_api_is_read_too() -> None:
    body = {
        "model": "m",
        "instructions": "Be brief.",
        "input": "?",
        "reasoning": {"effort": "low"},
        "max_output_tokens": 9,
        "temperature": 1,
    }

    request = request_of(RESPONSES, body)

    assert request.messages == (Message("system", "Be brief."), Message("user", "?"))
    assert (request.effort, request.max_output_tokens) == ("low", 9)
    assert request.extra_body == {"temperature": 1}


def test_more_than_the_effort_of_reasoning_goes_on_as_it_stands() -> None:
    body = {"model": "m", "input": "?", "reasoning": {"effort": "low", "summary": "auto"}}

    assert request_of(RESPONSES, body).extra_body == {"reasoning": body["reasoning"]}


def test_what_is_no_text_counts_in_the_estimate() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x" * 7000}}
    messages = [{"role": "user", "content": [picture]}]

    assert estimate(request_of(CHAT, chat(messages=messages))).prompt > 1500


def answered(url: str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"text": "Hi", "calls": ()} | more
    usage = Tokens(**USAGE)
    answer = Answer(job_id="j", model="m", created_s=7, finish=finish, usage=usage, **fields)
    return answer.body(url)


def test_a_completion_has_the_shape_of_the_api() -> None:
    body = answered(CHAT)

    assert (body["object"], body["model"], body["created"]) == ("chat.completion", "m", 7)
    assert body["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    ]
    assert body["usage"]["total_tokens"] == 8
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.parametrize("url", [CHAT, RESPONSES])
def test_the_usage_of_a_body_can_be_read_back(url: str) -> None:
    assert tokens_in(answered(url)["usage"]) == Tokens(**USAGE)


def test_a_response_has_the_shape_of_the_api() -> None:
    body = answered(RESPONSES)

    assert (body["object"], body["status"], body["incomplete_details"]) == (
        "response",
        "completed",
        None,
    )
    assert body["output"][0]["content"][0]["text"] == "Hi"
    assert body["usage"]["output_tokens"] == 5


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter")],
)
def test_an_answer_that_was_stopped_says_so(finish: str, reason: str) -> None:
    assert answered(CHAT, finish)["choices"][0]["finish_reason"] == finish
    body = answered(RESPONSES, finish)
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": reason})


def test_a_refusal_is_told_apart_from_text() -> None:
    message = answered(CHAT, "refusal")["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "Hi")
    assert answered(RESPONSES, "refusal")["output"][0]["content"][0]["type"] == "refusal"


def reading(*fragments: ToolCall) -> AnswerOfBody:
    made = AnswerOfBody()
    for fragment in fragments:
        made.call(fragment)
    return made


def test_the_fragments_of_a_tool_call_become_one() -> None:
    found = reading(
        ToolCall(0, "c1", "add", '{"a"'),
        ToolCall(1, "c2", "now", ""),
        ToolCall(0, None, None, ":1}"),
    ).finish()

    assert found["calls"] == [
        {"id": "c1", "name": "add", "arguments": '{"a":1}'},
        {"id": "c2", "name": "now", "arguments": ""},
    ]
    message = answered(CHAT, text="", calls=found["calls"])["choices"][0]
    assert message["finish_reason"] == "tool_calls"
    assert message["message"]["tool_calls"][0]["function"]["name"] == "add"
    output = answered(RESPONSES, text="", calls=found["calls"])["output"]
    assert [each["type"] for each in output] == ["function_call", "function_call"]


@pytest.mark.parametrize("fragment", [ToolCall(0, "c", None, "{}"), ToolCall(0, "c", "add", ":1}")])
def test_a_tool_call_that_lacks_its_beginning_fails_the_job(fragment: ToolCall) -> None:
    with pytest.raises(LongstreamError, match="not whole"):
        reading(fragment).finish()
