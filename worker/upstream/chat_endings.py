"""What the end of a chat completion means: the words providers give as its `finish_reason`."""

from __future__ import annotations

from worker.outcomes import Outcome

_WHOLE = frozenset(
    {"stop", "tool_calls", "function_call", "end_turn", "eos", "eos_token", "stop_sequence",
     "completed", "complete", "tool_use"}
)  # fmt: skip
_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens", "max_completion_tokens"})
_FILTERED = frozenset({"content_filter", "sensitive", "safety"})
_FAILED = frozenset({"error", "network_error", "insufficient_system_resource", "server_error"})
_NO_REASON = frozenset({"", "null", "none"})


def is_reason(reason: str | None) -> bool:
    """Whether it says that the answer has ended; some say `null` until it has."""
    return reason is not None and reason.lower() not in _NO_REASON


def is_failure(reason: str) -> bool:
    return reason.lower() in _FAILED


def outcome_of(
    reason: str | None, *, refused: bool, visible: int, thought: int
) -> tuple[Outcome, str]:
    """What an answer that ended so was, and why in words. `reason` is None when only the sentinel
    was seen; `thought` counts its reasoning tokens."""
    told = reason or "unknown"
    word = told.lower()
    if word in _FILTERED:
        return Outcome.FILTERED, told
    if refused or word == "refusal":
        return Outcome.REFUSED, told
    if word in _WHOLE or reason is None:
        return Outcome.COMPLETED, told
    if word in _CUT_SHORT and not visible:
        told = f"{told}: no visible output, {thought} reasoning tokens"
    return Outcome.INCOMPLETE, told
