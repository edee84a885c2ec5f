"""The failure table: every status and every word of an error has one meaning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from worker.upstream import failures
from worker.upstream.error_bodies import ErrorBody, error_in, error_in_bytes
from worker.upstream.failure_table import row_for, row_for_status
from worker.upstream.failures import UpstreamFailure, failure_of_answer, redacted

#: How a kind is written down: as a keyword, or as the first word of a row.
KIND = re.compile(r'(?:\bkind=|\b_?Row\(\s*)"([a-z_]+)"')


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_meaning_that_fits_it(status: int) -> None:
    row = row_for_status(status)

    if status < 400:
        assert (row.kind, row.fault, row.retryable) == ("redirect", "key", False)
    elif status < 500:
        assert row.retryable == (status in (408, 409, 425, 429))
    else:
        assert row.fault == "provider"
        assert row.retryable == (status not in (501, 505))


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("insufficient_quota", 429, "no_credit"),
        ("rate_limit_exceeded", 429, "rate_limited"),
        ("slow_down", 429, "overloaded"),
        ("tokens", 429, "rate_limited"),
        ("requests", 429, "rate_limited"),
        ("server_error", None, "provider_error"),
        ("invalid_request_error", 401, "bad_key"),
        ("invalid_request_error", None, "bad_request"),
        ("model_not_found", 403, "not_found"),
        ("unheard_of", 503, "overloaded"),
        ("unheard_of", None, "provider_error"),
    ],
)
def test_a_telling_word_outranks_the_status_and_a_vague_one_does_not(
    code: str, status: int | None, kind: str
) -> None:
    assert row_for(ErrorBody(codes=(code,)), status).kind == kind


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c", "param": "p"}},
         ErrorBody("m", ("c", "t"), "p")),
        ({"error": "m"}, ErrorBody("m")),
        ({"error": {"message": "m", "code": 429}}, ErrorBody("m", status=429)),
        ({"error": {"message": "m", "code": "429", "status": "RESOURCE_EXHAUSTED"}},
         ErrorBody("m", ("429", "resource_exhausted"), status=429)),
        ({"error": [{"message": "m"}]}, ErrorBody("m")),
        ({"object": "error", "message": "m", "code": 400}, ErrorBody("m", status=400)),
        ({"type": "error", "code": "c", "message": "m"}, ErrorBody("m", ("c",))),
        ({"detail": "m"}, ErrorBody("m")),
        ({"detail": [{"loc": ["body", "x"], "msg": "m"}]}, ErrorBody("m")),
        ({"errors": ["m"]}, ErrorBody("m")),
        ({"success": False, "message": "m"}, ErrorBody("m")),
        ({"error": {"message": "m", "details": [{"retryDelay": "34s"}]}},
         ErrorBody("m", delay="34s")),
        ({"error": None, "choices": []}, None),
        ({"error": {}}, None),
        ({"error": ""}, None),
        ({"message": "hello"}, None),
        ({"message": "m", "code": 1, "choices": [{}]}, None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_an_error_is_recognised_in_any_of_its_shapes(
    document: object, error: ErrorBody | None
) -> None:
    assert error_in(document) == error


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 9000, b"null", b'{"a":1}'])
def test_what_is_no_error_of_an_api_is_none(body: bytes) -> None:
    assert error_in_bytes(body) is None


def test_a_long_explanation_is_cut_and_put_on_one_line() -> None:
    failure = failure_of_answer(400, {}, b'{"error": {"message": "%s"}}' % (b"line\\n" * 1000))

    assert failure.message == f"the provider answered 400: {('line ' * 60)}"


@pytest.mark.parametrize(
    "message",
    ["Incorrect API key provided: sk-abcd1234efgh.", "Invalid token Bearer abcdef123456",
     "bad key abc****wxyz", "Incorrect API key provided: xai-abcd1234efgh",
     "Invalid API Key gsk_abcd1234efgh", "api_key=abcdef123456 was refused",
     "unknown key AIzaSyA0bCdEfGhIjKlMnOpQrStUvWx-wxyz"],
)  # fmt: skip
def test_what_looks_like_a_credential_is_not_repeated(message: str) -> None:
    said = redacted(message)
    assert not [part for part in ("abcd1234efgh", "abcdef123456", "wxyz") if part in said]


def test_a_credential_at_the_cut_of_a_long_explanation_is_not_repeated_in_part() -> None:
    assert "abcd" not in redacted(f"{'x ' * 145} sk-abcd1234efgh")


def test_where_a_redirect_leads_is_told_without_the_credentials_in_it() -> None:
    headers = {"location": "https://me:pass1234@sso.test/in?ticket=abcdef123456"}

    failure = failure_of_answer(302, headers, b"")

    assert "sso.test/in" in failure.message
    assert not [part for part in ("pass1234", "abcdef123456") if part in failure.message]


def test_words_about_keys_are_not_taken_for_keys() -> None:
    assert redacted("The API key provided is not known") == "The API key provided is not known"


def test_a_failure_carries_the_facts_a_scheduler_needs() -> None:
    body = {
        "error": {"message": "Rate limit on tokens per min (TPM)", "code": "rate_limit_exceeded"}
    }
    headers = {"retry-after": "3", "x-request-id": "r-1"}

    failure = failure_of_answer(429, headers, json.dumps(body).encode())

    assert (failure.kind, failure.fault, failure.retryable) == ("rate_limited", "account", True)
    assert (failure.delay_s, failure.dimension) == (3.0, "tokens")
    assert (failure.status, failure.request_id) == (429, "r-1")


def test_a_provider_may_say_that_a_retry_is_of_no_use() -> None:
    assert failure_of_answer(500, {"x-should-retry": "false"}, b"").retryable is False


def test_half_a_character_in_an_error_is_replaced() -> None:
    said = error_in_bytes(b'{"error": {"message": "no \\ud83d"}}')
    assert said == ErrorBody("no ?")


def test_the_counts_are_part_of_the_message_once_something_came() -> None:
    failure = UpstreamFailure("cut", kind="truncated", fault="network", retryable=True)
    assert str(failure) == "cut"
    failure.reasoning, failure.visible = 1847, 12

    assert str(failure) == "cut (after 1847 reasoning tokens and 12 visible deltas)"


def test_every_kind_is_listed_where_schedulers_look_for_it() -> None:
    listed = set((failures.__doc__ or "").replace(".", " ").replace(":", " ").split())
    sources = Path(failures.__file__).parent.glob("*.py")
    found = {kind for path in sources for kind in KIND.findall(path.read_text())}

    assert found - listed == set()
