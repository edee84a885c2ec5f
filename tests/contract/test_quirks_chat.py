"""Quirks of the chunks of chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.harness.asking import REQUEST, ask, noted, quick_client, text_of, thought_of
from tests.harness.wire import DONE, USAGE, delta, event, stream
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.happenings import Finished, Refusal, Text, ToolCall, Usage

ON = ("engine",)

STOP = delta("stop") + DONE


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


async def test_q32_a_first_chunk_without_choices_is_metadata(client: Client) -> None:
    azure = event({"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})

    assert text_of(await ask(client, stream(azure, delta(content="a"), STOP))) == "a"


async def test_q33_usage_after_the_finish_reason_is_not_missed(client: Client) -> None:
    happenings = await ask(client, stream(delta("stop", content="a"), USAGE, DONE))

    assert happenings[-2:] == [Usage(9, 0, 5, 3), Finished(Outcome.COMPLETED, "stop")]


async def test_q34_usage_on_every_chunk_is_not_added_up(client: Client) -> None:
    def chunk(content: str, tokens: int | None, finish: str | None = None) -> bytes:
        usage = None if tokens is None else {"prompt_tokens": 2, "completion_tokens": tokens}
        return event({"choices": [{"delta": {"content": content}, "finish_reason": finish}],
                      "usage": usage})  # fmt: skip

    happenings = await ask(
        client, stream(chunk("a", 1), chunk("b", 2), chunk("c", None), chunk("", 3, "stop"), DONE)
    )
    usages = [h for h in happenings if isinstance(h, Usage)]
    assert usages[-1] == Usage(2, 0, 3, 0)


async def test_q34_usage_inside_a_choice_is_found(client: Client) -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 3}
    moonshot = event({"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]})

    happenings = await ask(client, stream(delta(content="a"), moonshot, DONE))
    assert Usage(2, 0, 3, 0) in happenings


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 0, "finish_reason": None, "delta": None},
        {"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 1}},
        {},
    ],
)
async def test_q35_a_null_or_missing_delta_is_empty(
    client: Client, choice: dict[str, object]
) -> None:
    script = stream(delta(content="a"), event({"id": "", "choices": [choice]}), STOP)

    assert text_of(await ask(client, script)) == "a"


async def test_q36_null_and_empty_fields_are_ignored(client: Client) -> None:
    empty = delta(role="", content=None, tool_calls=None, reasoning_content=None, refusal=None)

    script = stream(empty, delta(role="assistant", content="a"), empty, delta(content="b"), STOP)
    assert text_of(await ask(client, script)) == "ab"


@pytest.mark.parametrize("nothing", ["", "null"])
async def test_q37_an_empty_finish_reason_does_not_end_at_the_first_token(
    client: Client, nothing: str
) -> None:
    script = stream(delta(nothing, content="a"), delta(nothing, content="b"), delta("length"), DONE)

    happenings = await ask(client, script)
    assert text_of(happenings) == "ab"
    assert happenings[-1] == Finished(Outcome.INCOMPLETE, "length")


async def test_q38_text_on_the_finish_chunk_is_kept_and_a_second_finish_is_harmless(
    client: Client,
) -> None:
    script = stream(delta(content="a"), delta("stop", content="b"), delta("stop"), DONE)

    happenings = await ask(client, script)
    assert text_of(happenings) == "ab"
    assert [h for h in happenings if isinstance(h, Finished)] == [
        Finished(Outcome.COMPLETED, "stop")
    ]


async def test_q39_a_sentinel_without_finish_reason_ends_an_answer(client: Client) -> None:
    happenings = await ask(client, stream(delta(content="a"), DONE))

    assert happenings[-1] == Finished(Outcome.COMPLETED, "unknown")


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning_content": "hm", "reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
async def test_q40_reasoning_of_any_name_is_not_lost_nor_mixed_into_the_text(
    client: Client, fields: dict[str, object]
) -> None:
    happenings = await ask(client, stream(delta(**fields), delta(content="a"), STOP))

    assert (thought_of(happenings), text_of(happenings)) == ("hm", "a")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_q41_inline_think_tags_cut_anywhere_do_not_leak_reasoning(
    client: Client, size: int
) -> None:
    said = "<think>a < b, </thin no</think>x <thing> y"
    parts = [delta(content=said[at : at + size]) for at in range(0, len(said), size)]
    request = msgspec.structs.replace(REQUEST, inline_thinking=True)

    happenings = await ask(client, stream(*parts, delta("stop"), DONE), request=request)
    assert thought_of(happenings) == "a < b, </thin no"
    assert text_of(happenings) == "x <thing> y"


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_q41_a_bare_closing_tag_makes_all_before_it_reasoning(
    client: Client, size: int
) -> None:
    said = "a < b, so</thin no</think>x </think> y<think>z"
    parts = [delta(content=said[at : at + size]) for at in range(0, len(said), size)]
    request = msgspec.structs.replace(REQUEST, inline_thinking=True)

    happenings = await ask(client, stream(*parts, delta("stop"), DONE), request=request)
    assert thought_of(happenings) == "a < b, so</thin noz"
    assert text_of(happenings) == "x </think> y"


async def test_q41_a_text_without_any_tag_is_not_held_back_for_ever(client: Client) -> None:
    words = "no tag here " * 1000
    parts = [delta(content=words)] * (2 * 2**20 // len(words))
    request = msgspec.structs.replace(REQUEST, inline_thinking=True)

    happenings = await ask(client, stream(*parts, delta("stop"), DONE), request=request)
    assert text_of(happenings) == words * len(parts)
    assert len([h for h in happenings if isinstance(h, Text)]) > 1


async def test_q41_think_tags_are_left_alone_unless_the_job_asks(client: Client) -> None:
    happenings = await ask(client, stream(delta(content="<think>a</think>"), STOP))

    assert text_of(happenings) == "<think>a</think>"


async def test_q41_what_is_held_back_for_a_tag_is_said_at_the_end(client: Client) -> None:
    request = msgspec.structs.replace(REQUEST, inline_thinking=True)

    happenings = await ask(client, stream(delta(content="a <thi"), STOP), request=request)
    assert text_of(happenings) == "a <thi"


async def test_q42_calls_that_share_an_index_are_not_merged(client: Client) -> None:
    def call(**fields: object) -> dict[str, object]:
        name, arguments = fields.pop("name", None), fields.pop("arguments", "")
        return {**fields, "function": {"name": name, "arguments": arguments}}

    script = stream(
        delta(tool_calls=[call(index=0, id="a", name="f"), call(index=0, id="b", name="g")]),
        delta(tool_calls=[call(index=0, arguments="[1")]),
        delta(tool_calls=[call(id="a", arguments="{}")]),
        delta(tool_calls=[call(index=0, id="b", arguments="]")]),
        delta(tool_calls=[call(id="c", name="h", arguments="1")]),
        delta(tool_calls=[call(arguments="2")]),
        delta("tool_calls"),
        DONE,
    )

    arguments: dict[int, str] = {}
    names: dict[int, str | None] = {}
    for happening in await ask(client, script):
        if isinstance(happening, ToolCall):
            arguments[happening.index] = arguments.get(happening.index, "") + happening.arguments
            names.setdefault(happening.index, happening.name)
    assert arguments == {0: "{}", 1: "[1]", 2: "12"}
    assert names == {0: "f", 1: "g", 2: "h"}


async def test_q43_a_refusal_is_not_an_empty_answer(client: Client) -> None:
    happenings = await ask(client, stream(delta(refusal="I "), delta(refusal="can't"), STOP))

    assert [h.text for h in happenings if isinstance(h, Refusal)] == ["I ", "can't"]
    assert happenings[-1] == Finished(Outcome.REFUSED, "stop")


async def test_q43_a_refused_response_is_not_an_empty_answer(client: Client) -> None:
    script = stream(
        event({"type": "response.refusal.delta", "item_id": "m", "delta": "no"}),
        event({"type": "response.completed", "response": {"output": []}}),
    )

    happenings = await ask(client, script, "responses")
    assert happenings == [Refusal("no"), Finished(Outcome.REFUSED, "completed")]


async def test_q44_a_budget_burnt_on_reasoning_says_so(client: Client) -> None:
    spent = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 4096,
                   "completion_tokens_details": {"reasoning_tokens": 4096}}})  # fmt: skip

    happenings = await ask(client, stream(delta(reasoning="hm"), delta("length"), spent, DONE))
    assert happenings[-1] == Finished(
        Outcome.INCOMPLETE, "length: no visible output, 4096 reasoning tokens"
    )


async def test_q44_a_response_whose_budget_is_burnt_says_so(client: Client) -> None:
    incomplete = {
        "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "usage": {"output_tokens": 64, "output_tokens_details": {"reasoning_tokens": 64}},
    }  # fmt: skip

    script = stream(event({"type": "response.incomplete", "response": incomplete}))
    happenings = await ask(client, script, "responses")
    assert happenings[-1] == Finished(
        Outcome.INCOMPLETE, "max_output_tokens: no visible output, 64 reasoning tokens"
    )


async def test_q45_a_filtered_answer_keeps_its_text(client: Client) -> None:
    happenings = await ask(client, stream(delta(content="a"), delta("content_filter"), DONE))

    assert text_of(happenings) == "a"
    assert happenings[-1] == Finished(Outcome.FILTERED, "content_filter")


async def test_a_stray_choice_is_counted_and_not_mixed_in(client: Client) -> None:
    two = event({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "z"}}]})

    happenings, notes = await noted(client, stream(two, STOP))
    assert text_of(happenings) == "a"
    assert notes["extra_choices"] == 1
