"""Each quirk sends the bytes it is named for, and the ledger's text is what a good reader shows."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasks.local.simulator.ask import Ask
from tasks.local.simulator.catalogue import table
from tasks.local.simulator.scenarios import every
from tasks.local.simulator.steps import Ending, Framing, Head, Pause, Raw, Send, Step
from tests.harness.simulated import (
    chat_ask,
    decoded,
    payloads,
    responses_ask,
    sent,
    steps,
    visible,
)

SCENARIOS = every()

DIALECTS: dict[str, Callable[..., Ask]] = {"chat": chat_ask, "responses": responses_ask}
#: Streams whose text a reader by the letter does not, or must not, show as the ledger has it.
READ_OTHERWISE = {
    "sim:badjson",
    "sim:cutjson",
    "sim:gluedjson",
    "sim:q08-no-newline",
    "sim:q08-one-newline",
    "sim:q18-json-completion",
    "sim:q23-gzip-cut",
    "sim:q41-think-tags",
    "sim:q41-bare-closing-tag",
    "sim:snapshot-suffix",
    "sim:snapshot-only",
    "sim:repeated-events",
}
READ = [
    (name, dialect)
    for name, scenario in SCENARIOS.items()
    for dialect in DIALECTS
    if scenario.speaks(dialect) and name not in READ_OTHERWISE and "endless" not in name
]


def first_ask(name: str, **more: Any) -> Ask:
    """A request in the dialect in which the scenario exists, chat if in both."""
    scenario = SCENARIOS[name]
    return DIALECTS["chat" if scenario.speaks("chat") else "responses"](model=name, **more)


def script(name: str, **more: Any) -> list[Step]:
    return steps(first_ask(name, **more))


def head(name: str) -> Head:
    return next(step for step in script(name) if isinstance(step, Head))


def body(name: str) -> bytes:
    return sent(script(name))


def unpacked(found: list[Step]) -> bytes:
    """The body, decompressed if it says that it is compressed."""
    data = sent(found)
    start = next((step for step in found if isinstance(step, Head)), Head())
    packing = dict(start.headers).get("content-encoding")
    if packing is None:
        return data
    plain = b""
    while data:
        member = zlib.decompressobj(wbits=47)
        plain += member.decompress(data)
        data = member.unused_data
    return plain


@pytest.mark.parametrize(("name", "dialect"), READ)
def test_a_good_reader_shows_the_text_that_the_ledger_counts(name: str, dialect: str) -> None:
    found = steps(DIALECTS[dialect](model=name))

    counted = "".join(step.text for step in found if isinstance(step, Send))
    assert visible(unpacked(found)) == counted


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("q01-comments", rb"^: OPENROUTER PROCESSING\n\n.*\n\n: ping\ndata: "),
        ("q02-glued-comments", rb"\n: x-cost=0\.1\n: x-model=simulated\ndata: \[DONE\]\n\n$"),
        ("q03-comment-as-data", rb"\n\ndata: : OPENROUTER PROCESSING\n\n"),
        ("q04-no-space", rb"\n\ndata:\{"),
        ("q05-crlf", rb"\}\r\n\r\ndata: "),
        ("q05-cr", rb"\}\r\rdata: "),
        ("q05-mixed", rb"\}\n\r\n.*\}\r\n\n.*\}\r\r\n.*\}\r\rdata"),
        ("q06-bom", rb"^\xef\xbb\xbfdata: "),
        ("q07-line-separators", rb"\xe2\x80\xa8.*\xe2\x80\xa9.*\xc2\x85"),
        ("q07-control-characters", rb"\x0b.*\x0c.*\x1c.*\x1d"),
        ("q08-no-newline", rb'"finish_reason":"stop"\}\]\}$'),
        ("q08-one-newline", rb'"finish_reason":"stop"\}\]\}\n$'),
        ("q08-tail-then-cut", rb'"content":"[^"]+"\}[^\n]*\}$'),
        ("q09-two-documents", rb"\n\ndata: \{[^\n]+\}\ndata: \{[^\n]+\}\n\n"),
        ("q10-many-lines", rb"data: \{\ndata:   \""),
        ("q11-control-blocks", rb"retry: 3000\n\n.*event: ping\n\n.*\n\ndata:\n\n"),
        ("q12-id-then-ping", rb"\n\nid: \d+\ndata: [^\n]+\n\n: ping\n\n"),
        ("q14-invalid-utf8", rb'"content":" ?\xff"'),
        ("q17-html", rb"^<!DOCTYPE html>"),
        ("q18-json-completion", rb'^\{.*"object":"chat\.completion".*\}$'),
        ("q19-json-error", rb'^\{"error":\{'),
        ("q19-json-code", rb'^\{"code":429'),
        ("q19-labelled-stream", rb'^\{"error":\{'),
        ("q21-empty", rb"^$"),
        ("q21-204", rb"^$"),
        ("q22-leading-blank-lines", rb"^\n\n\n\n\ndata: "),
        ("q23-gzip", rb"^\x1f\x8b"),
        ("q23-gzip-members", rb"^\x1f\x8b.+\x1f\x8b"),
        ("q25-error-object", rb'\{"error":\{"message":"quota exceeded"\}\}\n\ndata: \[DONE\]'),
        ("q25-error-text", rb'\{"error":"Simulated'),
        ("q25-error-with-choices", rb'"choices":\[\],"error":\{'),
        ("q25-error-amid-text", rb'"content":"[^"].*data: \{"error":\{[^\n]*\n\n$'),
        ("q26-code-only", rb'"message":"rate limited","code":"rate_limit_exceeded"\}\}'),
        ("q26-numeric-code", rb'"code":429\}\}'),
        ("q27-flat-error", rb'event: error\ndata: \{"type":"error","code":"server_error"'),
        ("q27-nested-error", rb'event: error\ndata: \{"type":"error","error":\{"type"'),
        ("q28-object-error", rb'\{"object":"error",'),
        ("q28-message-twice", rb'event: error\ndata: \{"error":\{[^}]*\},"message":'),
        ("q28-detail", rb'data: \{"detail":'),
        ("q29-failed-rate-limit", rb'"response\.failed".*"rate_limit_exceeded".*in 1\.5s'),
        ("q29-failed-server-error", rb'"response\.failed".*"code":"server_error"'),
        ("q30-overloaded-amid-text", rb'"content":"[^"].*event: error\n.*overloaded_error'),
        ("q31-null", rb"\n\ndata: null\n\n"),
        ("q31-no-object", rb"data: \[\]\n\n.*\n\ndata: 1\n\n"),
        ("q32-azure-first-chunk", rb'^data: \{"id":"".*"choices":\[\],"prompt_filter_results"'),
        ("q32-prompt-annotations", rb'^data: \{"id":"".*"prompt_annotations"'),
        ("q33-usage-last", rb'"choices":\[\],"usage":\{[^\n]*\n\ndata: \[DONE\]'),
        ("q33-usage-on-finish", rb'"finish_reason":"stop"\}\],"usage":\{'),
        ("q34-usage-everywhere", rb'"finish_reason":null\}\],"usage":\{"prompt'),
        ("q34-usage-then-null", rb'"choices":\[\],"usage":null\}\n\ndata: \[DONE\]'),
        ("q34-usage-in-choice", rb'"finish_reason":"stop","usage":\{'),
        ("q35-null-delta", rb'"finish_reason":null,"delta":null\}'),
        ("q35-missing-delta", rb'"finish_reason":null,"content_filter_offsets":'),
        ("q35-empty-id", rb'^data: \{"id":"",.*\n\ndata: \{"id":"",'),
        ("q36-null-fields", rb'"role":"","tool_calls":null.*"content":null'),
        ("q37-empty-finish", rb'"finish_reason":"".*"finish_reason":"stop"'),
        ("q38-text-on-finish", rb'"content":"[^"]+"\},"logprobs":null,"finish_reason":"stop"'),
        ("q38-finish-twice", rb'"finish_reason":"stop".*"delta":\{\}.*"finish_reason":"stop"'),
        ("q40-reasoning", rb'"delta":\{"reasoning":"'),
        ("q40-both-fields", rb'"reasoning":"[^"]+","reasoning_content":"'),
        ("q40-details", rb'"reasoning":"[^"]+","reasoning_details":\[\{'),
        ("q40-parts", rb'"content":\[\{"type":"thinking".*"content":\[\{"type":"text"'),
        ("q41-think-tags", rb'"<thi".*"nk>secret".*"nk>"'),
        ("q41-bare-closing-tag", rb'"content":"secret".*"think>"'),
        ("q42-no-index", rb'"tool_calls":\[\{"id":"[^\n]*\n\n[^\n]*"tool_calls":\[\{"function"'),
        ("q42-index-zero", rb'"index":0,"id":"call_simulated_a".*"index":0,"id":"call_simulated_b'),
        ("q42-no-id", rb'"tool_calls":\[\{"index":1,"function"'),
        ("q42-one-chunk", rb'"tool_calls":\[\{[^\n]*"index":0[^\n]*"index":0[^\n]*"index":1'),
        ("q43-refusal", rb'"delta":\{"refusal":"'),
        ("q44-budget-on-reasoning", rb'"finish_reason":"length"'),
        ("q45-content-filter", rb'"content":"[^"]+".*"finish_reason":"content_filter"'),
        ("q46-no-done", rb'"finish_reason":"stop"\}\]\}\n\n$'),
        ("q51-usage-after-done", rb'\[DONE\]\n\ndata: [^\n]*"choices":\[\],"usage":\{[^\n]*\n\n$'),
        ("q51-text-after-done", rb'\[DONE\]\n\ndata: [^\n]*"content":"[^\n]*\n\n$'),
        ("q52-no-event-name", rb'^data: \{"type":"response\.created"'),
        ("q52-empty-event-name", rb"^event:\ndata: "),
        ("q52-wrong-event-name", rb'event: response.created\ndata: \{"type":"response.completed"'),
        ("q53-empty-output", rb'"response\.completed".*"output":\[\]'),
    ],
)
def test_a_quirk_sends_the_bytes_it_is_named_for(name: str, trigger: bytes) -> None:
    assert re.search(trigger, body(f"sim:{name}"), re.DOTALL)


@pytest.mark.parametrize(
    ("name", "status", "header"),
    [
        ("q17-html", 200, ("content-type", "text/html")),
        ("q18-json-completion", 200, ("content-type", "application/json")),
        ("q19-labelled-stream", 200, ("content-type", "text/event-stream")),
        ("q20-text-plain", 200, ("content-type", "text/plain")),
        ("q20-octet-stream", 200, ("content-type", "application/octet-stream")),
        ("q20-semicolon", 200, ("content-type", "text/event-stream;charset=utf-8;")),
        ("q23-deflate", 200, ("content-encoding", "deflate")),
        ("q23-gzip-cut", 200, ("content-encoding", "gzip")),
        ("q24-301", 301, ("location", "/v1/chat/completions?followed")),
        ("q24-302", 302, ("location", "/v1/chat/completions?followed")),
        ("q24-307", 307, ("location", "/v1/chat/completions?followed")),
        ("q24-308", 308, ("location", "/v1/chat/completions?followed")),
        (
            "q24-other-origin",
            307,
            ("location", "https://elsewhere.invalid/v1/chat/completions?followed"),
        ),
        ("q30-529", 529, None),
        ("r1-seconds", 429, ("retry-after", "2")),
        ("r1-fraction", 429, ("retry-after", "1.5")),
        ("r1-milliseconds", 429, ("retry-after-ms", "250")),
        ("r1-date", 429, ("retry-after", "Thu, 01 Jan 1970 00:00:02 GMT")),
        ("r1-past-date", 429, ("retry-after", "Wed, 31 Dec 1969 23:00:00 GMT")),
        ("r1-zero", 429, ("retry-after", "0")),
        ("r1-negative", 429, ("retry-after", "-5")),
        ("r1-nan", 429, ("retry-after", "NaN")),
        ("r1-huge", 429, ("retry-after", "1e12")),
        ("r2-durations", 429, ("x-ratelimit-reset-requests", "23h47m36.648s")),
        ("r2-epoch", 429, ("x-ratelimit-reset", "2")),
        ("r2-rfc3339", 429, ("anthropic-ratelimit-tokens-reset", "1970-01-01T00:00:02Z")),
        ("r3-402", 402, None),
        ("r4-503-overloaded", 503, None),
        ("r4-502-page", 502, ("content-type", "text/html")),
        ("r4-520-page", 520, ("content-type", "text/html")),
        ("r4-524-page", 524, ("content-type", "text/html")),
        ("r5-403-page", 403, ("content-type", "text/html")),
        *((f"r5-{status}", status, None) for status in (400, 401, 403, 408, 409, 413, 422, 425)),
        ("r5-404-model", 404, None),
        ("r5-404-deployment", 404, None),
    ],
)
def test_a_quirk_of_the_head_has_its_status_and_header(
    name: str, status: int, header: tuple[str, str] | None
) -> None:
    found = head(f"sim:{name}")

    assert found.status == status
    assert header is None or header in found.headers


def test_a_stream_without_a_type_has_none() -> None:
    assert "content-type" not in dict(head("sim:q20-no-type").headers)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("r3-insufficient-quota", "insufficient_quota"),
        ("r3-credit-exhausted", "credit_balance_exhausted"),
        ("r4-slow-down", "slow_down"),
        ("r4-503-overloaded", "server_is_overloaded"),
        ("r5-404-deployment", "DeploymentNotFound"),
    ],
)
def test_a_permanent_refusal_carries_its_code(name: str, code: str) -> None:
    assert json.loads(body(f"sim:{name}"))["error"]["code"] == code


@pytest.mark.parametrize("name", [name for name in SCENARIOS if re.match(r"sim:(r1|r2|r6)-", name)])
def test_a_passing_refusal_hits_the_first_request_of_a_prompt_only(name: str) -> None:
    again = steps(msgspec.structs.replace(first_ask(name), nth=2))

    assert visible(sent(again)) == SCENARIOS[name].intended(first_ask(name)).text


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("q08-tail-then-cut", Ending.CUT),
        ("q29-failed-rate-limit", Ending.HANG),
        ("q48-stays-open", Ending.HANG),
        ("q49-reset-after-end", Ending.RESET),
        ("q49-reset-after-finish", Ending.RESET),
        ("q49-no-last-chunk", Ending.CUT),
        ("q50-cut-in-chunk", Ending.CUT),
        ("q50-short-length", Ending.CUT),
        ("r6-reset-before-headers", Ending.RESET),
        ("r7-no-headers", Ending.HANG),
        ("r7-headers-only", Ending.HANG),
        ("r7-stall", Ending.HANG),
        ("r7-comments-only", Ending.HANG),
    ],
)
def test_a_quirk_of_the_end_has_its_ending(name: str, ending: Ending) -> None:
    assert script(f"sim:{name}")[-1] is ending


@pytest.mark.parametrize("name", ["q48-stays-open", "q49-reset-after-end", "q49-no-last-chunk"])
def test_an_end_after_the_end_leaves_the_answer_whole(name: str) -> None:
    assert body(f"sim:{name}").endswith(b"data: [DONE]\n\n")


def test_every_cr_and_its_lf_are_in_different_writes() -> None:
    writes = [step.data for step in script("sim:q05-split-crlf") if isinstance(step, Send)]

    assert not any(b"\r\n" in data for data in writes)
    assert b"\r\n\r\n" in b"".join(writes)


def test_a_byte_order_mark_can_come_byte_by_byte() -> None:
    writes = [step.data for step in script("sim:q06-bom-bytewise") if isinstance(step, Send)]

    assert writes[:3] == [b"\xef", b"\xbb", b"\xbf"]


def test_no_write_holds_two_bytes_of_a_wide_character() -> None:
    writes = [step.data for step in script("sim:q13-split-utf8") if isinstance(step, Send)]

    assert sum(max(data) > 0x7F for data in writes) > 50
    assert all(len(data) == 1 for data in writes if max(data) > 0x7F)


def test_a_large_event_comes_in_small_pieces() -> None:
    writes = [step.data for step in script("sim:q15-large-event") if isinstance(step, Send)]

    longest = max(len(data) for _, data in decoded(b"".join(writes)))
    assert longest > 4_000_000
    assert max(len(data) for data in writes) <= 1_400


@pytest.mark.parametrize("name", ["sim:q16-endless-line", "sim:q16-endless-comment"])
def test_an_endless_line_is_80_mebibytes_without_a_newline(name: str) -> None:
    writes = [step.data for step in script(name) if isinstance(step, Send)]

    assert sum(map(len, writes)) > 80 * 2**20
    assert not any(b"\n" in data for data in writes)


def test_a_chunk_that_is_cut_announces_more_than_it_has() -> None:
    *_, raw, _ = script("sim:q50-cut-in-chunk")

    assert isinstance(raw, Raw)
    size, _, data = raw.data.partition(b"\r\n")
    assert len(data) < int(size, 16)


def test_a_short_body_announces_more_than_it_has() -> None:
    found = head("sim:q50-short-length")

    assert found.framing is Framing.LENGTH
    assert len(body("sim:q50-short-length")) < found.length


def test_a_body_that_ends_with_its_connection_says_so() -> None:
    assert head("sim:q50-until-close").framing is Framing.CLOSE


def test_no_finish_means_none_at_all() -> None:
    found = payloads(body("sim:q39-no-finish"))

    assert {choice["finish_reason"] for chunk in found for choice in chunk["choices"]} == {None}
    assert body("sim:q39-no-finish").endswith(b"data: [DONE]\n\n")


def test_a_budget_spent_on_reasoning_leaves_no_text() -> None:
    found = script("sim:q44-budget-on-reasoning")

    assert sum(step.thinking_tokens for step in found if isinstance(step, Send)) == 600
    assert visible(sent(found)) == ""


@pytest.mark.parametrize("name", ["sim:snapshot-suffix", "sim:snapshot-only"])
def test_a_snapshot_has_the_text_that_the_deltas_lack(name: str) -> None:
    events = payloads(body(name))
    done = next(event for event in events if event["type"] == "response.output_text.done")

    assert done["text"] == SCENARIOS[name].intended(first_ask(name)).text
    assert len(visible(body(name))) < len(done["text"])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_stream_without_numbers_has_none() -> None:
    assert not any("sequence_number" in event for event in payloads(body("sim:no-sequence")))


def test_repeated_events_have_the_number_of_the_first() -> None:
    numbers = [event["sequence_number"] for event in payloads(body("sim:repeated-events"))]

    assert len(numbers) > len(set(numbers)) == max(numbers) + 1


@pytest.mark.parametrize(
    ("name", "more", "param"),
    [
        ("strict-unknown", {"max_reasoning_tokens": 9}, "max_reasoning_tokens"),
        ("strict-unrecognized", {"reasoning_chunk_buffer": 9}, None),
        ("strict-max-tokens", {"max_tokens": 9}, "max_tokens"),
        ("strict-effort", {"reasoning_effort": "low"}, "reasoning_effort"),
        ("strict-stream", {}, "stream"),
    ],
)
def test_a_strict_provider_refuses_the_parameter(
    name: str, more: dict[str, Any], param: str | None
) -> None:
    error = json.loads(sent(script(f"sim:{name}", **more)))["error"]

    assert error["param"] == param
    assert (param or "reasoning_chunk_buffer") in error["message"] or param == "stream"


def test_a_proxy_that_buffers_sends_everything_at_once() -> None:
    found = script("sim:r8-one-read")

    assert [type(step) for step in found] == [Pause, Head, Send]


def test_clumps_are_full_buffers_cut_anywhere() -> None:
    writes = [step.data for step in script("sim:r8-16k") if isinstance(step, Send)]

    assert len(writes) > 1
    assert writes[0] == body("sim:r8-16k")[:16_384]
    assert not writes[0].endswith(b"\n\n")


def test_the_slowest_stream_has_one_byte_a_write() -> None:
    writes = [step.data for step in script("sim:r7-slow-loris") if isinstance(step, Send)]

    assert {len(data) for data in writes} == {1}


def test_every_quirk_that_a_wire_can_show_has_a_scenario() -> None:
    numbers = {scenario.quirk for scenario in SCENARIOS.values()}

    assert {f"Q{number:02}" for number in range(1, 54)} <= numbers
    assert {f"R{number}" for number in range(1, 9)} <= numbers


def test_the_documentation_lists_every_scenario() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()

    assert table() in page
