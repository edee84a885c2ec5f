"""What a provider or the network did to a request, as one error with the facts a scheduler needs.

LongstreamError
└── UpstreamFailure     `kind` says what happened, `fault` whose it is

`retryable` says whether the same request can succeed later. Whether it may be sent again is for
the caller to decide: that is free only while `visible` is 0. A message never contains a key, nor
a prompt or an answer; `sample` holds the first bytes of what could not be read, and is not part
of the message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from settings.errors import LongstreamError
from worker.upstream.error_bodies import ErrorBody, error_in_bytes

Fault = Literal["request", "key", "account", "provider", "network"]

#: What is kept of a page or of bytes that are not a stream.
SAMPLE_BYTES = 200


class UpstreamFailure(LongstreamError):
    """The request failed. `reasoning` and `visible` count the deltas that came before."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        fault: Fault,
        retryable: bool,
        delay_s: float | None = None,
        dimension: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        code: str | None = None,
        param: str | None = None,
        sample: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.fault: Fault = fault
        self.retryable = retryable
        self.delay_s = delay_s
        self.dimension = dimension
        self.status = status
        self.request_id = request_id
        self.code = code
        self.param = param
        self.sample = sample[:SAMPLE_BYTES]
        self.reasoning = 0
        self.visible = 0

    def __str__(self) -> str:
        if not self.reasoning and not self.visible:
            return self.message
        return (
            f"{self.message} (after {self.reasoning} reasoning tokens"
            f" and {self.visible} visible deltas)"
        )


@dataclass(frozen=True, slots=True)
class Row:
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

#: Words of a body outrank the status: the same 429 can mean "later" and "never".
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
_SECRET = re.compile(r"\b(sk|pk|key|Bearer)[-_ ][A-Za-z0-9*_.-]{6,}")


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
    row = _CODES[known[0]] if known else row_for_status(status) if status else _PROVIDER_ERROR
    if known and known[0] in _VAGUE and status is not None and status >= 400:
        row = row_for_status(status)
    if row is _RATE_LIMITED and _NEVER.search(body.message):
        return _NO_CREDIT
    return row


def failure_in_stream(body: ErrorBody, *, request_id: str | None = None) -> UpstreamFailure:
    """The failure an error inside a 200 answer stands for."""
    row = row_for(body, None)
    said = redacted(body.message) or ", ".join(body.codes) or "no explanation"
    return UpstreamFailure(
        f"the provider ended the stream with an error: {said}",
        kind=row.kind,
        fault=row.fault,
        retryable=row.retryable,
        status=body.status,
        request_id=request_id,
        code=body.codes[0] if body.codes else None,
        param=body.param,
    )


def failure_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFailure:
    """The failure an answer with this status stands for. Header names are lower case."""
    error = error_in_bytes(body) or ErrorBody()
    row = row_for(error, status)
    said = redacted(error.message) or ", ".join(error.codes) or _unexplained(status, headers)
    return UpstreamFailure(
        f"the provider answered {status}: {said}",
        kind=row.kind,
        fault=row.fault,
        retryable=row.retryable,
        status=status,
        request_id=request_id_in(headers),
        code=error.codes[0] if error.codes else None,
        param=error.param,
        sample=b"" if error.message else body,
    )


def request_id_in(headers: Mapping[str, str]) -> str | None:
    """What the provider's support will ask for."""
    names = ("x-request-id", "request-id", "apim-request-id", "cf-ray")
    return next((headers[name] for name in names if headers.get(name)), None)


def _unexplained(status: int, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        target = headers.get("location", "nowhere")[:200]
        return f"a redirect to {target}, which is not followed; put the final URL in base_url"
    return f"no explanation ({headers.get('content-type', 'unlabelled').partition(';')[0]})"


def redacted(message: str) -> str:
    """A provider's words without anything that looks like a credential."""
    return _SECRET.sub(r"\1-...", message)


def truncated(message: str = "the stream ended before the answer did") -> UpstreamFailure:
    """The body ended without the terminal that would make it an answer."""
    return UpstreamFailure(message, kind="truncated", fault="network", retryable=True)


def malformed(what: str, sample: bytes) -> UpstreamFailure:
    """The stream carried something no reading makes sense of."""
    return UpstreamFailure(
        f"the stream is not what its protocol says: {what}",
        kind="protocol",
        fault="provider",
        retryable=True,
        sample=sample,
    )
