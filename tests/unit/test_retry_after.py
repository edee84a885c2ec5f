"""Every way a provider says how long to wait."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, strategies as st

from worker.upstream.retry_after import CAP_S, LONGEST_S, Advice, advice_in, seconds_of

DATE = "Mon, 30 Nov 2026 02:00:00 GMT"
EPOCH = 1_796_004_000


def delay(words: str = "", hint: object = None, **headers: str) -> float | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return advice_in({"date": DATE} | named, words, hint).delay_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("1.5", 1.5),
        (" 7 ", 7.0),
        ("Mon, 30 Nov 2026 02:00:30 GMT", 30.0),
        ("2026-11-30T02:00:45Z", 45.0),
        (str(EPOCH + 60), 60.0),
        ("1e300", CAP_S),
        ("999999999", CAP_S),
        ("1e12", CAP_S),
        ("inf", CAP_S),
        ("0", None),
        ("-3", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Mon, 30 Nov 2026 01:59:00 GMT", None),
    ],
)
def test_retry_after_in_every_form(value: str, seconds: float | None) -> None:
    assert delay(retry_after=value) == seconds


def test_milliseconds_win_over_seconds() -> None:
    assert delay(retry_after_ms="250", retry_after="9") == 0.25


def test_useless_milliseconds_leave_the_word_to_the_seconds() -> None:
    assert delay(retry_after_ms="0", retry_after="9") == 9.0


def test_a_date_is_read_against_the_answers_own_clock() -> None:
    skewed = advice_in({"date": "Mon, 30 Nov 2020 02:00:00 GMT",
                        "retry-after": "Mon, 30 Nov 2020 02:01:00 GMT"})  # fmt: skip

    assert skewed.delay_s == 60.0


def test_a_date_without_the_answers_clock_is_read_against_ours() -> None:
    moment = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))

    found = advice_in({"retry-after": moment}).delay_s
    assert found is not None
    assert 90 < found <= 100


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("17ms", 0.017),
        ("1m30.951s", 90.951),
        ("6m0s", 360.0),
        ("23h47m36.648s", 85656.648),
        ("1d", 86400.0),
        ("10", None),
        ("m", None),
        ("5 parsecs", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    found = seconds_of(text)
    assert found == seconds if seconds is None else math.isclose(found or 0, seconds)


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "17ms",
             "x-ratelimit-remaining-tokens": "900", "x-ratelimit-reset-tokens": "6m0s"},
            Advice(0.017, "requests"),
        ),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "17ms",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"},
            Advice(360.0, "tokens"),
        ),
        (
            {"anthropic-ratelimit-input-tokens-remaining": "0",
             "anthropic-ratelimit-input-tokens-reset": "2026-11-30T02:00:20Z"},
            Advice(20.0, "tokens"),
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH + 5)},
         Advice(5.0, "requests")),
        ({"x-ratelimit-reset": str((EPOCH + 5) * 1000)}, Advice(5.0, None)),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "3s"}, Advice()),
        ({}, Advice()),
    ],
)  # fmt: skip
def test_a_reset_counts_for_the_limit_that_is_exhausted(
    headers: dict[str, str], advice: Advice
) -> None:
    assert advice_in({"date": DATE} | headers) == advice


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in 6.12s.",
         Advice(6.12, "tokens")),
        ("Rate limit reached on requests per day (RPD). Please try again in 7m12s.",
         Advice(432.0, "requests_per_day")),
        ("please try again in 28ms", Advice(0.028)),
        ("Please retry after 20 seconds.", Advice(20.0)),
        ("try again in 2 minutes", Advice(120.0)),
        ("Please retry in 34.5s", Advice(34.5)),
        ("Too many concurrent requests", Advice(None, "streams")),
        ("try again later", Advice()),
    ],
)  # fmt: skip
def test_the_words_of_an_error_are_read(words: str, advice: Advice) -> None:
    assert advice_in({}, words) == advice


def test_a_field_of_the_body_is_read() -> None:
    assert delay(hint="34s") == 34.0
    assert delay(hint=12) == 12.0
    assert delay(hint=None) is None


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=60))
def test_whatever_is_sent_the_delay_is_usable(after: str, reset: str, words: str) -> None:
    headers = {"retry-after": after, "x-ratelimit-remaining-tokens": "0",
               "x-ratelimit-reset-tokens": reset}  # fmt: skip

    found = advice_in(headers, words).delay_s
    assert found is None or 0 < found <= LONGEST_S
