"""What the end of a response means: its status, and why it is incomplete or failed."""

from __future__ import annotations

from typing import Any

from worker.outcomes import Outcome
from worker.upstream.error_bodies import ErrorBody, error_in
from worker.upstream.failures import UpstreamFailure, failure_in_stream
from worker.upstream.response_shapes import incomplete_reason

#: The events that end a stream, and the status each says.
TERMINAL = {f"response.{status}": status
            for status in ("completed", "incomplete", "failed", "cancelled", "done")}  # fmt: skip


def incomplete(response: dict[str, Any], *, spoke: bool, thought: int) -> tuple[Outcome, str]:
    """What an incomplete response is; `thought` counts its reasoning tokens."""
    reason = incomplete_reason(response)
    if reason == "content_filter":
        return Outcome.FILTERED, reason
    if spoke:
        return Outcome.INCOMPLETE, reason
    return Outcome.INCOMPLETE, f"{reason}: no visible output, {thought} reasoning tokens"


def failure_of(status: str, response: dict[str, Any]) -> UpstreamFailure:
    """What a response means that failed or was cancelled."""
    if status == "cancelled":
        return UpstreamFailure(
            "the response was cancelled at the provider",
            kind="cancelled",
            fault="request",
            retryable=False,
        )
    return failure_in_stream(error_in(response) or ErrorBody(codes=("server_error",)))
