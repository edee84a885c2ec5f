"""What a provider or the network did to a request, as one error with the facts a scheduler needs.

LongstreamError
└── UpstreamFailure     `kind` says what happened, `fault` whose it is

`retryable` says whether the same request can succeed later. Whether it may be sent again is for
the caller to decide: that is free only while `visible` is 0. A message never contains a key, nor
a prompt or an answer; `sample` holds the first bytes of what could not be read, and is not part
of the message: they may be either.

Kinds by fault. request: bad_request bad_parameter reserved_field not_found too_large filtered
cancelled total. key: bad_key forbidden wrong_url redirect bad_url. account: rate_limited no_credit
account_deactivated. provider: provider_error overloaded timed_out conflict too_early empty
protocol unexpected_status headers bytes_idle progress_idle. network: truncated connection_lost
connect connect_timeout read_timeout write_timeout pool_timeout tls blocked not_a_stream encoding
proxy_error proxy_refused closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from settings.errors import LongstreamError
from worker.seeing import redaction
from worker.upstream.error_bodies import ErrorBody, error_in_bytes
from worker.upstream.failure_table import Fault, row_for, row_for_page
from worker.upstream.limits import Limits, limits_in
from worker.upstream.retry_after import Advice, advice_in

#: What is kept of a page or of bytes that are not a stream.
SAMPLE_BYTES = 200

#: A provider's explanation is shown to people.
_SAID_CHARS = 300

#: As providers repeat a key: its beginning, or with its middle starred out.
_REPEATED = re.compile(r"\b(?:(?:sk|pk|rk)-|Bearer )\S{4,}|\S*\*{3,}\S*")


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
        param: str | None = None,
        sample: bytes = b"",
        limits: Limits = Limits(),  # noqa: B008
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
        self.param = param
        self.sample = sample[:SAMPLE_BYTES]
        self.limits = limits
        self.reasoning = 0
        self.visible = 0

    def __str__(self) -> str:
        if not self.reasoning and not self.visible:
            return self.message
        return (
            f"{self.message} (after {self.reasoning} reasoning tokens"
            f" and {self.visible} visible deltas)"
        )


def failure_in_stream(body: ErrorBody) -> UpstreamFailure:
    """The failure an error inside a 200 answer stands for."""
    row = row_for(body, None)
    advice = advice_in({}, body.message, body.delay) if row.retryable else Advice()
    said = redacted(body.message) or ", ".join(body.codes) or "no explanation"
    return UpstreamFailure(
        f"the provider ended the stream with an error: {said}",
        kind=row.kind,
        fault=row.fault,
        retryable=row.retryable,
        delay_s=advice.delay_s,
        dimension=advice.dimension,
        status=body.status,
        param=body.param,
    )


def failure_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFailure:
    """The failure an answer with this status stands for. Header names are lower case."""
    found = error_in_bytes(body)
    error = found or ErrorBody()
    row = row_for_page(status) if found is None else row_for(error, status)
    retryable = _told(headers, row.retryable)
    advice = advice_in(headers, error.message, error.delay) if retryable else Advice()
    said = redacted(error.message) or ", ".join(error.codes) or _unexplained(status, headers)
    return UpstreamFailure(
        f"the provider answered {status}: {said}",
        kind=row.kind,
        fault=row.fault,
        retryable=retryable,
        delay_s=advice.delay_s,
        dimension=advice.dimension,
        status=status,
        request_id=request_id_in(headers),
        param=error.param,
        sample=b"" if error.message else body,
        limits=limits_in(headers),
    )


def _told(headers: Mapping[str, str], retryable: bool) -> bool:
    """Some providers say outright that a retry is of no use."""
    return retryable and headers.get("x-should-retry", "").lower() != "false"


def request_id_in(headers: Mapping[str, str]) -> str | None:
    """What the provider's support will ask for."""
    names = ("x-request-id", "request-id", "apim-request-id", "cf-ray")
    return next((headers[name] for name in names if headers.get(name)), None)


def _unexplained(status: int, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        target = redacted(headers.get("location", "nowhere"))[:200]
        return f"a redirect to {target}, which is not followed; put the final URL in base_url"
    return f"no explanation ({headers.get('content-type', 'unlabelled').partition(';')[0]})"


def redacted(message: str) -> str:
    """A provider's words without anything that looks like a credential."""
    # Before the cut: what is left of a key in two halves looks like none.
    return redaction.redacted(_REPEATED.sub("...", message))[:_SAID_CHARS]


def truncated(message: str = "the stream ended before the answer did") -> UpstreamFailure:
    """The body ended without the terminal that would make it an answer."""
    return UpstreamFailure(message, kind="truncated", fault="network", retryable=True)


def no_answer() -> UpstreamFailure:
    """The stream was ended as if it were whole, and nothing was in it."""
    return UpstreamFailure(
        "the stream ended without an answer", kind="empty", fault="provider", retryable=True
    )


def malformed(what: str, sample: bytes) -> UpstreamFailure:
    """The stream carried something no reading makes sense of."""
    return UpstreamFailure(
        f"the stream is not what its protocol says: {what}",
        kind="protocol",
        fault="provider",
        retryable=True,
        sample=sample,
    )
