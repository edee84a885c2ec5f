"""The body of a request as OpenAI's APIs take it, made into a request of ours.

Both APIs are understood: /v1/chat/completions and /v1/responses. What the client answers for itself
is taken out (`stream`, `n`, ...); what it has a word for is translated (`max_tokens`,
`reasoning_effort`, ...); everything else goes to the provider as it stands (`tools`,
`response_format`, `temperature`, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from settings.errors import LongstreamError
from worker.upstream.request import Message, Request

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
URLS = (CHAT, RESPONSES)

#: Set by the client itself for every request; a batch that sets them means nothing by it.
_OURS = frozenset(
    {"model", "messages", "input", "stream", "stream_options", "n", "background", "store"}
)
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class BodyError(LongstreamError):
    """The body can not be sent. `code` says it in one word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def request_of(url: str, body: Mapping[str, Any]) -> Request:
    """Raises BodyError."""
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise BodyError("missing_model", "body.model must name a model")
    if body.get("n") not in (None, 1):
        raise BodyError("unsupported_parameter", "body.n must be 1: a job has one answer")
    messages = _chat_messages(body) if url == CHAT else _response_messages(body)
    effort, rest = _effort(body)
    limits = [rest.pop(name) for name in _LIMITS if name in rest]
    limit = next((each for each in limits if each is not None), None)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BodyError("invalid_parameter", "body: the limit of output tokens must be above 0")
    return Request(
        model=body["model"],
        messages=messages,
        effort=effort,
        max_output_tokens=limit,
        extra_body=rest,
    )


def _effort(body: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The effort asked for, and the fields that go to the provider as they are."""
    rest = {name: value for name, value in body.items() if name not in _OURS}
    rest.pop("instructions", None)
    effort = rest.pop("reasoning_effort", None)
    reasoning = rest.get("reasoning")
    if isinstance(reasoning, dict) and reasoning.keys() <= {"effort"}:
        effort = rest.pop("reasoning").get("effort")
    if effort is not None and not isinstance(effort, str):
        raise BodyError("invalid_parameter", "body: the effort of reasoning must be text")
    return effort, rest


def _chat_messages(body: Mapping[str, Any]) -> tuple[Message, ...]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BodyError("missing_messages", "body.messages must be a list that is not empty")
    return tuple(_message(f"body.messages[{i}]", each) for i, each in enumerate(messages))


def _response_messages(body: Mapping[str, Any]) -> tuple[Message, ...]:
    given, instructions = body.get("input"), body.get("instructions")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}] if given else []
    if not isinstance(given, list) or not given:
        raise BodyError("missing_input", "body.input must be text or a list that is not empty")
    messages = tuple(_message(f"body.input[{i}]", each) for i, each in enumerate(given))
    if instructions is None:
        return messages
    if not isinstance(instructions, str):
        raise BodyError("invalid_parameter", "body.instructions must be text")
    return (Message("system", instructions), *messages)


def _message(where: str, given: Any) -> Message:
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        raise BodyError("invalid_message", f"{where} must be an object with a role")
    content = given.get("content")
    if not isinstance(content, (str, list)) and content is not None:
        raise BodyError("invalid_message", f"{where}.content must be text or a list of parts")
    more = {name: value for name, value in given.items() if name not in ("role", "content")}
    return Message(given["role"], _joined(content), more)


def _joined(content: str | list[Any] | None) -> str | list[Any] | None:
    """The text of parts that are nothing but text; else the parts."""
    if not isinstance(content, list) or not content:
        return content
    texts = [
        part["text"]
        for part in content
        if isinstance(part, dict)
        and part.keys() == {"type", "text"}
        and part["type"] in ("text", "input_text")
        and isinstance(part["text"], str)
    ]
    return "".join(texts) if len(texts) == len(content) else content
