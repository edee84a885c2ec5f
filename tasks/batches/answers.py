"""The body of an answer, as OpenAI's APIs would have given it without streaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.batches.bodies import CHAT
from worker.log.entries import Tokens

#: Why a response is incomplete, by how its answer ended.
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one job has said. `finish`: how it ended, in the words of the chat API; or refusal."""

    job_id: str
    model: str
    created_s: int
    text: str
    calls: Sequence[Mapping[str, Any]] = ()
    finish: str
    usage: Tokens

    def body(self, url: str) -> dict[str, Any]:
        """As the API at `url` says it."""
        return _completion(self) if url == CHAT else _response(self)


def response_usage(usage: Tokens) -> dict[str, Any]:
    """The usage of a response."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def tokens_in(usage: Mapping[str, Any]) -> Tokens:
    """What the usage of an answer's body says, in either API's words."""
    chat = "prompt_tokens" in usage
    given, made = ("prompt", "completion") if chat else ("input", "output")
    return Tokens(
        input=usage[f"{given}_tokens"],
        cached=usage[f"{given}_tokens_details"]["cached_tokens"],
        output=usage[f"{made}_tokens"],
        reasoning=usage[f"{made}_tokens_details"]["reasoning_tokens"],
    )


def _completion(answer: Answer) -> dict[str, Any]:
    finish, usage = answer.finish, answer.usage
    content = answer.text or None if answer.calls else answer.text
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if finish == "refusal":
        message |= {"content": None, "refusal": answer.text}
        finish = "stop"
    if answer.calls:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": _function(call)}
            for call in answer.calls
        ]
        finish = "tool_calls"
    return {
        "id": f"chatcmpl-{answer.job_id}",
        "object": "chat.completion",
        "created": answer.created_s,
        "model": answer.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        },
    }


def _response(answer: Answer) -> dict[str, Any]:
    whole = answer.finish in ("stop", "refusal")
    status = "completed" if whole else "incomplete"
    reason = {"reason": _REASONS.get(answer.finish, answer.finish)}
    return {
        "id": f"resp_{answer.job_id}",
        "object": "response",
        "created_at": answer.created_s,
        "status": status,
        "error": None,
        "incomplete_details": None if whole else reason,
        "model": answer.model,
        "output": [*_messages(answer, status), *_calls(answer, status)],
        "usage": response_usage(answer.usage),
    }


def _messages(answer: Answer, status: str) -> list[dict[str, Any]]:
    """None when there is nothing but calls."""
    if answer.calls and not answer.text:
        return []
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    if answer.finish == "refusal":
        part = {"type": "refusal", "refusal": answer.text}
    return [
        {
            "type": "message",
            "id": f"msg_{answer.job_id}",
            "status": status,
            "role": "assistant",
            "content": [part],
        }
    ]


def _calls(answer: Answer, status: str) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": call["id"], "status": status, **_function(call)}
        for call in answer.calls
    ]


def _function(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": call["name"], "arguments": call["arguments"]}
