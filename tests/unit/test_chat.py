"""Chat completions: every form of every field, and an end that is earned."""

from __future__ import annotations

import json

import pytest

from worker.outcomes import Outcome
from worker.upstream.chat import Chat
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished, Happening, Refusal, Text, Thinking, ToolCall, Usage
from worker.upstream.sse import Event

DONE = Event(b"[DONE]")


def event(document: object) -> Event:
    return Event(json.dumps(document).encode())


def delta(finish: str | None = None, **fields: object) -> Event:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def run(*events: Event) -> list[Happening]:
    chat = Chat()
    happenings = [h for e in events for h in chat.feed([e])]
    assert chat.failed is None, chat.failed
    together = Chat()
    assert "".join(texts(together.feed(list(events)))) == "".join(texts(happenings))
    return happenings + chat.finish()


def texts(happenings: list[Happening]) -> list[str]:
    return [h.text for h in happenings if isinstance(h, Text)]


def test_a_whole_answer_is_completed() -> None:
    assert run(delta(role="assistant"), delta(content="a"), delta("stop"), DONE) == [
        Text("a"),
        Finished(Outcome.COMPLETED, "stop"),
    ]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("stop", Outcome.COMPLETED),
        ("tool_calls", Outcome.COMPLETED),
        ("length", Outcome.INCOMPLETE),
        ("max_tokens", Outcome.INCOMPLETE),
        ("content_filter", Outcome.FILTERED),
        ("sensitive", Outcome.FILTERED),
        ("something_new", Outcome.INCOMPLETE),
    ],
)
def test_each_finish_reason_has_its_outcome(reason: str, outcome: Outcome) -> None:
    assert run(delta(content="a"), delta(reason), DONE)[-1] == Finished(outcome, reason)


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning": None, "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_reasoning_by_any_name_is_thinking_once_and_never_text(fields: dict[str, object]) -> None:
    assert run(delta(**fields), delta("stop", content="a"), DONE)[:2] == [
        Thinking("hm", 1),
        Text("a"),
    ]


def test_thinking_of_one_read_is_one_piece_in_its_place() -> None:
    events = [delta(reasoning="a"), delta(reasoning="b"), delta(content="x"), delta(reasoning="c")]

    assert Chat().feed(events) == [Thinking("ab", 2), Text("x"), Thinking("c", 1)]


def test_usage_replaces_and_zeros_or_nulls_never_overwrite() -> None:
    def usage(value: object) -> Event:
        return event({"choices": [], "usage": value})

    happenings = run(
        delta(content="a"),
        usage({"prompt_tokens": 4, "completion_tokens": 1}),
        usage({"prompt_tokens": 4, "completion_tokens": 3}),
        usage(None),
        usage({"prompt_tokens": 0, "completion_tokens": 0}),
        delta("stop"),
        DONE,
    )

    assert [h for h in happenings if isinstance(h, Usage)] == [Usage(4, 0, 1, 0), Usage(4, 0, 3, 0)]


def test_a_refusal_is_its_own_channel_and_its_own_outcome() -> None:
    assert run(delta(refusal="I "), delta(refusal="won't"), delta("stop"), DONE) == [
        Refusal("I "),
        Refusal("won't"),
        Finished(Outcome.REFUSED, "stop"),
    ]


def test_an_error_in_the_stream_comes_after_the_deltas_before_it() -> None:
    chat = Chat()
    happenings = chat.feed(
        [delta(content="a"), event({"error": {"message": "quota exceeded"}}), delta(content="b")]
    )

    assert happenings == [Text("a")]
    assert chat.failed is not None
    assert "quota exceeded" in str(chat.failed)


def test_a_character_in_two_halves_is_one_character() -> None:
    happenings = run(
        Event(rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}'),
        Event(rb'{"choices":[{"delta":{"content":"\ude00b"}}]}'),
        delta("stop"),
        DONE,
    )

    assert "".join(texts(happenings)) == "a\U0001f600b"


def test_a_half_character_without_its_other_half_is_replaced_at_the_end() -> None:
    happenings = run(Event(rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}'), delta("stop"), DONE)

    assert texts(happenings) == ["a", "\ufffd"]


def test_an_end_without_finish_reason_or_sentinel_is_not_earned() -> None:
    chat = Chat()
    chat.feed([delta(content="a")])

    with pytest.raises(UpstreamFailure) as caught:
        chat.finish()
    assert caught.value.kind == "truncated"


def test_a_sentinel_without_an_answer_is_not_an_end() -> None:
    chat = Chat()
    chat.feed([DONE])

    with pytest.raises(UpstreamFailure):
        chat.finish()


def test_tool_call_fragments_stay_with_their_call() -> None:
    def call(**fields: object) -> Event:
        return delta(tool_calls=[fields])

    happenings = run(
        call(index=0, id="a", function={"name": "f", "arguments": ""}),
        call(index=0, function={"arguments": "{"}),
        call(index=1, id="b", function={"name": "g", "arguments": "["}),
        call(index=0, function={"arguments": "}"}),
        delta("tool_calls"),
        DONE,
    )

    assert happenings[:-1] == [
        ToolCall(0, "a", "f", ""),
        ToolCall(0, None, None, "{"),
        ToolCall(1, "b", "g", "["),
        ToolCall(0, None, None, "}"),
    ]


@pytest.mark.parametrize(
    ("message", "text"),
    [("abc", "abc"), ("ab", "ab"), ("", "ab"), ("xyz", "ab")],
)
def test_a_final_message_adds_only_what_the_deltas_did_not_say(message: str, text: str) -> None:
    last = event({"choices": [{"message": {"content": message}, "finish_reason": "stop"}]})

    assert "".join(texts(run(delta(content="a"), delta(content="b"), last, DONE))) == text


def test_an_error_after_the_finish_reason_does_not_undo_the_answer() -> None:
    happenings = run(delta("stop", content="a"), event({"error": {"message": "late"}}), DONE)

    assert happenings == [Text("a"), Finished(Outcome.COMPLETED, "stop")]


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
def test_a_finish_reason_that_means_failure_is_one(reason: str) -> None:
    chat = Chat()
    chat.feed([delta(content="a"), delta(reason)])

    assert chat.failed is not None
    assert (chat.failed.fault, chat.failed.retryable) == ("provider", True)


def test_a_legacy_function_call_is_a_tool_call() -> None:
    assert run(
        delta(function_call={"name": "f", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
        delta("function_call"),
        DONE,
    )[:2] == [ToolCall(0, None, "f", "{"), ToolCall(0, None, None, "}")]
