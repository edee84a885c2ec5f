"""The shapes of a chat completion: the common one, typed for speed, and a tolerant reading.

`Chunk` fits the chunks providers normally send and nothing else: one choice, no error. Whatever
does not fit is read by `choices_in` and `tally_in` from the plain document, forgivingly.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from worker.upstream.happenings import Usage

#: Where a delta has no `reasoning_details`.
NO_DETAILS = msgspec.Raw()


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: msgspec.Raw = NO_DETAILS
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None

    def details(self) -> str:
        """The readable text of `reasoning_details`."""
        raw = self.reasoning_details
        return "" if raw is NO_DETAILS else text_of_details(msgspec.json.decode(raw))


class InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Tally(msgspec.Struct, gc=False):
    """A `usage` object."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None

    def usage(self) -> Usage:
        cached = self.prompt_tokens_details and self.prompt_tokens_details.cached_tokens
        thought = self.completion_tokens_details and self.completion_tokens_details.reasoning_tokens
        return Usage(
            input_tokens=self.prompt_tokens or 0,
            cached_tokens=cached or self.prompt_cache_hit_tokens or 0,
            output_tokens=self.completion_tokens or 0,
            reasoning_tokens=thought or 0,
        )


class Choice(msgspec.Struct, gc=False):
    """`message` holds the whole text so far; `delta` what is new."""

    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    usage: Tally | None = None


class LoneDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class LoneChoice(msgspec.Struct, gc=False):
    delta: LoneDelta
    finish_reason: None = None
    usage: None = None


class LoneChunk(msgspec.Struct, gc=False):
    """A chunk that has new text or new reasoning, or neither, and nothing beside it."""

    choices: Annotated[list[LoneChoice], msgspec.Meta(min_length=1, max_length=1)]
    usage: None = None
    error: None = None


class Chunk(msgspec.Struct, gc=False):
    choices: Annotated[list[Choice], msgspec.Meta(min_length=1, max_length=1)]
    usage: Tally | None = None
    error: None = None


def choices_in(document: dict[str, Any]) -> list[Choice]:
    """The choices of a document the common shape does not fit."""
    choices = document.get("choices")
    if not isinstance(choices, list):
        return []
    return [_choice(choice) for choice in choices if isinstance(choice, dict)]


def tally_in(place: dict[str, Any]) -> Tally | None:
    """The usage a document or a choice carries."""
    usage = place.get("usage")
    if not isinstance(usage, dict):
        return None
    return Tally(
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        prompt_cache_hit_tokens=_count(usage, "prompt_cache_hit_tokens"),
        prompt_tokens_details=InputDetails(
            _count(usage.get("prompt_tokens_details"), "cached_tokens")
        ),
        completion_tokens_details=OutputDetails(
            _count(usage.get("completion_tokens_details"), "reasoning_tokens")
        ),
    )


def text_of_details(details: Any) -> str:
    """The readable text of `reasoning_details` or of a thinking part."""
    if isinstance(details, str):
        return details
    if not isinstance(details, list):
        return ""
    return "".join(
        text
        for part in details
        if isinstance(part, dict)
        and isinstance(text := part.get("text") or part.get("summary"), str)
    )


def _choice(choice: dict[str, Any]) -> Choice:
    reason = choice.get("finish_reason")
    return Choice(
        delta=_delta(choice.get("delta")),
        message=_delta(choice.get("message")),
        finish_reason=reason if isinstance(reason, str) else None,
        usage=tally_in(choice),
    )


def _delta(delta: Any) -> Delta | None:
    if not isinstance(delta, dict):
        return None
    content, thinking = _parts(delta.get("content"))
    thought = delta.get("reasoning_content") or delta.get("reasoning") or thinking
    if not isinstance(thought, str) or not thought:
        thought = text_of_details(delta.get("reasoning_details"))
    calls = delta.get("tool_calls")
    return Delta(
        content=content,
        reasoning=thought,
        refusal=_string(delta.get("refusal")),
        tool_calls=[_call(c) for c in calls if isinstance(c, dict)]
        if isinstance(calls, list)
        else None,
        function_call=_function(delta.get("function_call")),
    )


def _parts(content: Any) -> tuple[str, str]:
    """Visible text and thinking of a content that may be a list of parts."""
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"text": part} for part in content]
        visible = [part.get("text") for part in parts if part.get("type") != "thinking"]
        thinking = [part.get("thinking") for part in parts if part.get("type") == "thinking"]
        return "".join(t for t in visible if isinstance(t, str)), "".join(
            map(text_of_details, thinking)
        )
    return _string(content) or "", ""


def _call(call: dict[str, Any]) -> Call:
    index = call.get("index")
    return Call(
        index=index if isinstance(index, int) else None,
        id=_string(call.get("id")),
        function=_function(call.get("function")),
    )


def _function(function: Any) -> Function | None:
    if not isinstance(function, dict):
        return None
    arguments = function.get("arguments")
    if isinstance(arguments, dict | list):
        arguments = msgspec.json.encode(arguments).decode()
    return Function(name=_string(function.get("name")), arguments=_string(arguments))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(place: Any, name: str) -> int | None:
    value = place.get(name) if isinstance(place, dict) else None
    return int(value) if isinstance(value, int | float) else None
