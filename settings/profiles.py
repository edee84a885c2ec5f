"""Provider profiles: what differs between OpenAI-compatible providers, as data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Dialect = Literal["chat", "responses"]
#: What a key speaks. A background response goes on at the provider when the stream is cut, and can
#: be taken up again; the other two can not.
Api = Literal["chat", "responses", "background"]
APIS: tuple[Api, ...] = ("chat", "responses", "background")

#: Parameters only a gateway understands; a provider that does not take them answers 400.
GATEWAY_PARAMETERS = frozenset({"max_reasoning_tokens", "reasoning_chunk_buffer"})


class Profile(Struct, frozen=True, kw_only=True):
    """How one provider differs from the others.

    `takes` lists the optional body parameters the provider is known to accept;
    `output_limit` is the body field that caps the output tokens.
    """

    name: str
    base_url: str | None
    dialect: Dialect = "chat"
    background: bool = False
    takes: frozenset[str] = frozenset()
    output_limit: Literal["max_tokens", "max_completion_tokens", "max_output_tokens"] = "max_tokens"
    stream_usage: bool = True
    #: Where the provider tells afterwards what an answer used, by the id of its stream.
    usage_path: str | None = None


_EFFORT = frozenset({"reasoning_effort"})

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="holysheep",
            base_url="https://api.holysheep.ai/v1",
            takes=_EFFORT | GATEWAY_PARAMETERS,
        ),
        Profile(
            name="openai",
            base_url="https://api.openai.com/v1",
            takes=_EFFORT,
            output_limit="max_completion_tokens",
        ),
        Profile(name="deepseek", base_url="https://api.deepseek.com/v1"),
        Profile(
            name="openrouter",
            base_url="https://openrouter.ai/api/v1",
            takes=_EFFORT,
            usage_path="generation?id={id}",
        ),
        Profile(name="generic", base_url=None),
        Profile(
            name="simulator",
            base_url=None,
            takes=_EFFORT | GATEWAY_PARAMETERS,
            usage_path="generation?id={id}",
        ),
    )
}
