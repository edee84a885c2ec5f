"""Quirks of bodies and of errors inside a successful answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from settings import Secret
from tests.harness.asking import REQUEST, SECRET, ask, fail, key_for, noted, quick_client, text_of
from tests.harness.wire import (
    DONE,
    END,
    PAUSE,
    WireServer,
    chunk,
    delta,
    event,
    head,
    plain,
    stream,
)
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished, Thinking, Usage

ON = ("engine",)

STOP = delta("stop") + DONE
COMPLETION = {
    "object": "chat.completion",
    "choices": [
        {"message": {"role": "assistant", "content": "ab", "reasoning_content": "hm"},
         "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}  # fmt: skip
RESPONSE = {
    "object": "response", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2},
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "ab"}]}],
}  # fmt: skip


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


@pytest.mark.parametrize("label", ["text/html", "text/event-stream", ""])
async def test_q17_a_page_is_not_an_empty_success(client: Client, label: str) -> None:
    page = b"\r\n<!DOCTYPE html><html>blocked by policy"

    answer = plain("200 OK", page, content_type=label, x_request_id="r-7")
    failure, _ = await fail(client, [answer])
    assert (failure.kind, failure.request_id) == ("not_a_stream", "r-7")
    assert b"blocked by policy" in failure.sample


async def test_q18_an_answer_that_ignored_stream_is_not_empty(client: Client) -> None:
    body = json.dumps(COMPLETION).encode()

    happenings, notes = await noted(
        client, [plain("200 OK", body, content_type="application/json")]
    )
    assert happenings == [
        Thinking("hm", 1), *[h for h in happenings if text_of([h])], Usage(3, 0, 2, 0),
        Finished(Outcome.COMPLETED, "stop"),
    ]  # fmt: skip
    assert text_of(happenings) == "ab"
    assert notes["non_streamed"] == 1


async def test_q18_a_response_that_ignored_stream_is_not_empty(client: Client) -> None:
    body = json.dumps(RESPONSE).encode()

    happenings = await ask(client, [plain("200 OK", body)], "responses")
    assert text_of(happenings) == "ab"
    assert happenings[-2:] == [Usage(3, 0, 2, 0), Finished(Outcome.COMPLETED, "completed")]


@pytest.mark.parametrize("label", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "slow", "code": "rate_limit_exceeded"}}, "rate_limited"),
        ({"code": 429, "msg": "too many"}, "rate_limited"),
        ({"code": 401, "message": "who are you"}, "bad_key"),
    ],
)
async def test_q19_an_error_labelled_success_is_classified_by_its_body(
    client: Client, body: dict[str, object], kind: str, label: str
) -> None:
    answer = plain("200 OK", json.dumps(body).encode(), content_type=label)

    failure, _ = await fail(client, [answer])
    assert failure.kind == kind


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(
    "label", ["text/plain", "application/octet-stream", "", "text/event-stream;charset=utf-8;"]
)
async def test_q20_events_with_a_wrong_label_are_read(
    client: Client, label: str, size: int
) -> None:
    body = delta(content="a") + STOP
    parts = [body[at : at + size] for at in range(0, len(body), size)]

    assert text_of(await ask(client, stream(*parts, content_type=label))) == "a"


@pytest.mark.parametrize(
    "answer",
    [
        plain("204 No Content", b""),
        plain("200 OK", b""),
        head() + END,
        head() + chunk(b"\n\n") + END,
    ],
)
async def test_q21_nothing_at_all_is_not_an_answer(client: Client, answer: bytes) -> None:
    failure, _ = await fail(client, [answer])

    assert (failure.kind, failure.retryable, failure.visible) == ("empty", True, 0)


async def test_q22_blank_lines_while_queued_are_tolerated(client: Client) -> None:
    script = stream(*[b"\n"] * 5000, b": keep-alive\n\n", delta(content="a"), STOP)

    assert text_of(await ask(client, script)) == "a"


async def test_q22_blank_lines_before_a_document_are_tolerated(client: Client) -> None:
    script = stream(*[b"\n"] * 50, json.dumps(COMPLETION).encode(), content_type="application/json")

    assert text_of(await ask(client, script)) == "ab"


@pytest.mark.parametrize("members", [1, 3])
async def test_q23_a_compressed_stream_is_read_although_identity_was_asked_for(
    client: Client, members: int
) -> None:
    parts = [delta(content="a"), delta(content="b"), STOP]
    packed = [gzip.compress(b"".join(parts))] if members == 1 else list(map(gzip.compress, parts))

    assert text_of(await ask(client, stream(*packed, content_encoding="gzip"))) == "ab"


async def test_q23_a_cut_compressed_stream_is_not_a_short_answer(client: Client) -> None:
    packed = gzip.compress(delta(content="a") + delta(content="b"))[:-8]

    failure, _ = await fail(client, stream(packed, content_encoding="gzip"))
    assert failure.kind == "truncated"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_q24_a_redirect_does_not_turn_the_post_into_a_get(
    client: Client, status: str
) -> None:
    answer = plain(status, b"", location="https://elsewhere.example/v1/chat/completions")

    failure, _ = await fail(client, [answer])
    assert (failure.kind, failure.fault, failure.retryable) == ("redirect", "key", False)
    assert "https://elsewhere.example" in str(failure)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"message": "quota exceeded", "code": "insufficient_quota"}}, "no_credit"),
        ({"error": "it broke"}, "provider_error"),
        ({"choices": [], "error": {"message": "it broke"}}, "provider_error"),
        ({"choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
          "error": {"code": 502, "message": "it broke"}}, "provider_error"),
    ],
)  # fmt: skip
async def test_q25_an_error_in_the_stream_is_not_an_end(
    client: Client, error: dict[str, object], kind: str
) -> None:
    failure, seen = await fail(client, stream(delta(content="a"), event(error), DONE))

    assert (text_of(seen), failure.kind, failure.visible) == ("a", kind, 1)


@pytest.mark.parametrize(
    "error",
    [{"message": "rate limited", "code": "rate_limit_exceeded"}, {"message": "no", "code": 429},
     {"message": "no", "code": "429"}, {"message": "no", "type": "rate_limit_error"}],
)  # fmt: skip
async def test_q26_a_rate_limit_is_known_by_any_of_its_codes(
    client: Client, error: dict[str, object]
) -> None:
    failure, _ = await fail(client, stream(event({"error": error})))

    assert (failure.kind, failure.fault, failure.retryable) == ("rate_limited", "account", True)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "error", "code": "server_error", "message": "oh", "sequence_number": 7},
        {"type": "error", "error": {"code": "server_error", "message": "oh"}},
        {"code": "server_error", "message": "oh"},
    ],
)
@pytest.mark.parametrize("provider", ["simulator", "responses"])
async def test_q27_flat_and_nested_errors_are_both_errors(
    client: Client, data: dict[str, object], provider: str
) -> None:
    failure, _ = await fail(client, stream(b"event: error\n" + event(data)), provider)

    assert failure.kind == "provider_error"
    assert "oh" in str(failure)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"object": "error", "message": "bad thing", "code": 400}, "bad_request"),
        ({"error": {"message": "bad thing"}, "message": "bad thing"}, "provider_error"),
        ({"detail": "bad thing"}, "provider_error"),
    ],
)
async def test_q28_errors_of_local_servers_are_errors(
    client: Client, data: dict[str, object], kind: str
) -> None:
    failure, _ = await fail(client, stream(event(data)))

    assert failure.kind == kind
    assert "bad thing" in str(failure)


async def test_q29_a_failed_response_fails_at_once_and_not_at_the_end(client: Client) -> None:
    failed = {
        "type": "response.failed",
        "response": {"status": "failed", "error": {
            "code": "rate_limit_exceeded", "message": "Please try again in 1.5s."}},
    }  # fmt: skip

    failure, _ = await fail(client, [head(), chunk(event(failed)), *[PAUSE] * 200], "responses")
    assert (failure.kind, failure.delay_s) == ("rate_limited", 1.5)


async def test_q30_overload_inside_success_is_retryable_and_says_what_was_visible(
    client: Client,
) -> None:
    overloaded = event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})

    failure, _ = await fail(client, stream(delta(content="a"), b"event: error\n" + overloaded))
    assert (failure.kind, failure.retryable, failure.visible) == ("overloaded", True, 1)


@pytest.mark.parametrize("payload", [b"null", b"[]", b"1", b'"x"', b"true"])
async def test_q31_a_payload_that_is_no_object_does_not_end_the_run(
    client: Client, payload: bytes
) -> None:
    script = stream(delta(content="a"), b"data: " + payload + b"\n\n", delta(content="b"), STOP)

    happenings, notes = await noted(client, script)
    assert text_of(happenings) == "ab"
    assert notes["null_event"] + notes["stray_value"] == 1


async def test_an_error_that_repeats_the_key_does_not_leak_it(client: Client) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}."}}).encode()

    failure, _ = await fail(client, [plain("401 Unauthorized", body)])
    assert SECRET not in str(failure)
    assert SECRET.encode() not in failure.sample


async def test_an_error_status_with_an_event_as_its_body_is_understood(client: Client) -> None:
    body = event({"error": {"message": "slow down", "code": "rate_limit_exceeded"}})

    failure, _ = await fail(client, [plain("429 Too Many Requests", body)])
    assert failure.kind == "rate_limited"


async def test_a_compressed_error_is_understood(client: Client) -> None:
    body = gzip.compress(b'{"error":{"message":"no such model","code":"model_not_found"}}')

    failure, _ = await fail(client, [plain("404 Not Found", body, content_encoding="gzip")])
    assert "no such model" in str(failure)


async def test_a_body_of_an_unknown_encoding_is_named(client: Client) -> None:
    failure, _ = await fail(client, stream(b"xx", content_encoding="br"))

    assert (failure.kind, failure.retryable) == ("encoding", False)


async def test_a_finish_reason_beside_an_error_is_no_end(client: Client) -> None:
    both = event({"choices": [{"delta": {"content": "b"}, "finish_reason": "stop"}],
                  "error": {"message": "it broke"}})  # fmt: skip

    failure, seen = await fail(client, stream(delta(content="a"), both, DONE))
    assert (text_of(seen), failure.kind) == ("ab", "provider_error")


async def test_a_key_that_cannot_be_sent_is_the_keys_fault_and_not_shown(client: Client) -> None:
    async with WireServer([plain("200 OK", b"")]) as server:
        bad = replace(key_for(server), secret=Secret(f"{SECRET}\n"))
        with pytest.raises(UpstreamFailure) as caught:
            await anext(client.stream(REQUEST, bad))

    assert (caught.value.kind, caught.value.fault) == ("bad_url", "key")
    assert SECRET not in str(caught.value)
