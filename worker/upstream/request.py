"""What is asked of a provider, and the JSON body that asks it.

The profile decides which optional parameters a provider is sent and what its output limit is
called. `extra_body` is merged at the top level, where gateways read their own parameters; the
fields the client itself answers for are refused in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec

from settings.profiles import Profile

#: Cuts most of the bursts of this model family; a job overrides it with its own effort.
DEFAULT_EFFORT = "low"

#: `n` is reserved because one job has one answer.
RESERVED = frozenset({"model", "stream", "messages", "input", "n"})


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the conversation. `content` that is no text, and `more` fields, go to the
    provider as they are."""

    role: str
    content: str | list[Any] | None
    more: Mapping[str, Any] = {}

    def as_sent(self) -> dict[str, Any]:
        return {"role": self.role, "content": self.content, **self.more}


class Request(msgspec.Struct, frozen=True):
    """One request, the same for every dialect. Round-trips through JSON with msgspec.

    `inline_thinking` says that the model writes its reasoning into the text, in <think> tags.
    """

    model: str
    messages: tuple[Message, ...]
    effort: str | None = None
    max_output_tokens: int | None = None
    max_reasoning_tokens: int | None = 4096
    reasoning_chunk_buffer: int | None = 256
    extra_body: Mapping[str, Any] = {}
    inline_thinking: bool = False


def body_for(request: Request, profile: Profile, dropped: Set[str] = frozenset()) -> dict[str, Any]:
    """The body to post. `dropped` names parameters this provider has refused before."""
    check_extra_body(request.extra_body)
    chat = profile.dialect == "chat"
    messages = [message.as_sent() for message in request.messages]
    body: dict[str, Any] = {
        "model": request.model,
        "messages" if chat else "input": messages,
        "stream": True,
    }
    if profile.background:
        body |= {"background": True, "store": True}
    if chat and profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= _optional(request, profile, dropped)
    body |= request.extra_body
    kept = RESERVED | request.extra_body.keys()
    return {name: value for name, value in body.items() if name in kept or name not in dropped}


def check_extra_body(extra_body: Mapping[str, Any]) -> None:
    """Refuses fields in `extra_body` that only the client may set."""
    if clash := sorted(RESERVED & extra_body.keys()):
        from worker.upstream.failures import UpstreamFailure

        raise UpstreamFailure(
            f"extra_body may not set {', '.join(clash)}: longstream sets these fields itself",
            kind="reserved_field",
            fault="request",
            retryable=False,
            param=clash[0],
        )


def _optional(request: Request, profile: Profile, dropped: Set[str]) -> dict[str, Any]:
    effort = request.effort or DEFAULT_EFFORT
    wanted: dict[str, Any] = {
        "reasoning_effort": effort,
        "max_reasoning_tokens": request.max_reasoning_tokens,
        "reasoning_chunk_buffer": request.reasoning_chunk_buffer,
    }
    taken = {n: v for n, v in wanted.items() if n in profile.takes and v is not None}
    if profile.dialect == "responses" and "reasoning_effort" in taken:
        taken["reasoning"] = {"effort": taken.pop("reasoning_effort")}
    if request.max_output_tokens is not None:
        taken[_limit_name(profile, dropped)] = request.max_output_tokens
    return taken


def _limit_name(profile: Profile, dropped: Set[str]) -> str:
    """What the provider calls the output limit; its other name once it refused this one."""
    if profile.dialect == "responses":
        return "max_output_tokens"
    others = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
    name = profile.output_limit
    return others.get(name, name) if name in dropped else name
