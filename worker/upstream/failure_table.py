"""The failure table: what a status, an error word or a page means, and whose fault it is.

The words of an error outrank its status, since the same 429 can mean "later" and "never".
`retryable` says whether the same request can succeed later without anything being changed.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from worker.upstream.error_bodies import ErrorBody

Fault = Literal["request", "key", "account", "provider", "network"]


class Row(msgspec.Struct, frozen=True):
    """One row of the failure table."""

    kind: str
    fault: Fault
    retryable: bool


_BAD_REQUEST = Row("bad_request", "request", False)
_BAD_KEY = Row("bad_key", "key", False)
_FORBIDDEN = Row("forbidden", "key", False)
_NO_CREDIT = Row("no_credit", "account", False)
_RATE_LIMITED = Row("rate_limited", "account", True)
_NOT_FOUND = Row("not_found", "request", False)
_BLOCKED = Row("blocked", "network", False)
_TOO_LARGE = Row("too_large", "request", False)
_FILTERED = Row("filtered", "request", False)
_BAD_PARAMETER = Row("bad_parameter", "request", False)
_OVERLOADED = Row("overloaded", "provider", True)
_PROVIDER_ERROR = Row("provider_error", "provider", True)
_PROVIDER_REFUSES = Row("provider_error", "provider", False)
_WRONG_URL = Row("wrong_url", "key", False)

_STATUS: dict[int, Row] = {
    400: _BAD_REQUEST,
    401: _BAD_KEY,
    402: _NO_CREDIT,
    403: _FORBIDDEN,
    404: _NOT_FOUND,
    405: _WRONG_URL,
    407: Row("proxy_refused", "network", False),
    408: Row("timed_out", "provider", True),
    409: Row("conflict", "provider", True),
    413: _TOO_LARGE,
    415: _WRONG_URL,
    422: _BAD_REQUEST,
    425: Row("too_early", "provider", True),
    429: _RATE_LIMITED,
    501: _PROVIDER_REFUSES,
    505: _PROVIDER_REFUSES,
    503: _OVERLOADED,
    529: _OVERLOADED,
}

_CODES: dict[str, Row] = {
    **dict.fromkeys(
        ("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached",
         "billing_not_active", "billing_error", "insufficient_balance", "insufficient_credits",
         "quota_exceeded", "payment_required"),
        _NO_CREDIT,
    ),
    "account_deactivated": Row("account_deactivated", "account", False),
    **dict.fromkeys(
        ("rate_limit_exceeded", "rate_limit_error", "rate_limited", "too_many_requests",
         "resource_exhausted", "requests", "tokens"),
        _RATE_LIMITED,
    ),
    **dict.fromkeys(
        ("overloaded_error", "overloaded", "server_is_overloaded", "slow_down", "server_overloaded",
         "engine_overloaded", "engine_overloaded_error", "service_unavailable", "unavailable"),
        _OVERLOADED,
    ),
    **dict.fromkeys(
        ("server_error", "internal_error", "internal_server_error", "api_error", "timeout_error",
         "insufficient_system_resource", "network_error", "bad_gateway"),
        _PROVIDER_ERROR,
    ),
    **dict.fromkeys(
        ("invalid_api_key", "authentication_error", "invalid_authentication", "unauthorized",
         "unauthenticated"),
        _BAD_KEY,
    ),
    **dict.fromkeys(
        ("permission_denied", "permission_error", "unsupported_country_region_territory"),
        _FORBIDDEN,
    ),
    **dict.fromkeys(("model_not_found", "deploymentnotfound", "not_found_error"), _NOT_FOUND),
    **dict.fromkeys(
        ("context_length_exceeded", "string_above_max_length", "request_too_large"), _TOO_LARGE
    ),
    **dict.fromkeys(
        ("content_filter", "content_policy_violation", "invalid_prompt",
         "responsibleaipolicyviolation"),
        _FILTERED,
    ),
    **dict.fromkeys(
        ("unsupported_parameter", "unknown_parameter", "unsupported_value"), _BAD_PARAMETER
    ),
    **dict.fromkeys(
        ("invalid_request_error", "badrequesterror", "invalid_argument", "validation_error"),
        _BAD_REQUEST,
    ),
}  # fmt: skip

#: Words that only say which family an error is of; a more telling word beside them wins.
_VAGUE = frozenset({"invalid_request_error", "requests", "tokens", "api_error", "server_error"})

#: "limit: 0" is a limit no waiting helps against.
_NEVER = re.compile(r"\blimit:? 0\b|exceeded your current quota|credit balance is too low", re.I)


def row_for_status(status: int) -> Row:
    """What a status means when the body does not say more."""
    if status in _STATUS:
        return _STATUS[status]
    if 300 <= status < 400:
        return Row("redirect", "key", False)
    if status >= 500:
        return _PROVIDER_ERROR
    return _BAD_REQUEST if status >= 400 else Row("unexpected_status", "provider", False)


def row_for(body: ErrorBody, status: int | None) -> Row:
    """What an error means: its words first, then its number, then the status."""
    known = sorted((c for c in body.codes if c in _CODES), key=lambda code: code in _VAGUE)
    status = body.status or status
    if known and (known[0] not in _VAGUE or status is None):
        row = _CODES[known[0]]
    else:
        row = _PROVIDER_ERROR if status is None else row_for_status(status)
    return _NO_CREDIT if row is _RATE_LIMITED and _NEVER.search(body.message) else row


def row_for_page(status: int) -> Row:
    """What a status means when a page or nothing at all comes with it, and no error of an API."""
    if status == 403:
        return _BLOCKED
    return _WRONG_URL if status == 404 else row_for_status(status)
