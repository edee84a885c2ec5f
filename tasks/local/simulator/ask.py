"""What a client asked for: a request body, checked, and reduced to what a scenario needs.

`parse_chat` and `parse_responses` return an `Ask`, or a `Refusal` that names the parameter.
Parameters nobody knows are accepted and kept for the ledger; messages are not.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tasks.local.simulator.seeded import seed_of

Dialect = Literal["chat", "responses"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
#: Parameters are kept for the ledger up to this size, names only beyond it.
PARAMETERS_BYTES = 16_384

_TEXTS = frozenset({"messages", "input", "instructions"})
_PATH = re.compile(r"`\$\.(\w+)")
_MISSING = re.compile(r"missing required field `(\w+)`$")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is answered 400."""

    message: str
    param: str | None = None
    code: str | None = None


class Message(msgspec.Struct, frozen=True):
    role: str
    text: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `seed` decides the answer, `identity` the ids: it covers every parameter.

    `nth` counts the requests with this seed, from 1; `now` is the wall clock at arrival. They
    are the only parts that differ between two equal requests.
    """

    dialect: Dialect
    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    max_output: int | None = None
    effort: str = "medium"
    max_reasoning: int | None = None
    flush_every: int | None = None
    background: bool = False
    parameters: dict[str, Any] = {}
    seed: bytes = b""
    identity: str = ""
    nth: int = 1
    now: float = 0.0
    query: str = ""

    @property
    def prompt(self) -> str:
        """The text of the last user message."""
        texts = [message.text for message in self.messages if message.role == "user"]
        return texts[-1] if texts else ""

    @property
    def prompt_tokens(self) -> int:
        return 3 + sum(4 + len(message.text) // 4 for message in self.messages)

    @property
    def created(self) -> int:
        """A time stamp that is part of the seeded bytes: some second of 2026."""
        return 1_767_225_600 + int(self.identity[:6], 16)


class _Wire(msgspec.Struct):
    role: str = "user"
    content: str | list[dict[str, Any]] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Reasoning(msgspec.Struct):
    effort: str | None = None


class _Body(msgspec.Struct):
    model: str
    stream: bool | None = None
    max_reasoning_tokens: int | None = None
    reasoning_chunk_buffer: int | None = None
    seed: int | None = None


class _ChatBody(_Body, kw_only=True):
    messages: list[_Wire]
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None


class _ResponsesBody(_Body, kw_only=True):
    input: str | list[_Wire]
    instructions: str | None = None
    background: bool | None = None
    max_output_tokens: int | None = None
    reasoning: _Reasoning | None = None


def parse_chat(body: bytes) -> Ask | Refusal:
    """Read the body of `POST /chat/completions`."""
    try:
        raw = msgspec.json.decode(body)
        read = msgspec.convert(raw, _ChatBody)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _refusal(error)
    if not read.messages:
        return Refusal(message="'messages' must not be empty.", param="messages")
    limit = read.max_completion_tokens
    return _ask(
        raw,
        read,
        dialect="chat",
        messages=tuple(_message(item) for item in read.messages),
        effort=read.reasoning_effort,
        max_output=read.max_tokens if limit is None else limit,
        include_usage=read.stream_options is not None and read.stream_options.include_usage,
    )


def prompt_seed(model: str, prompt: str) -> str:
    """How the ledger knows the requests of this one message."""
    return seed_of([model, [["user", prompt]], None]).hex()[:16]


def parse_responses(body: bytes) -> Ask | Refusal:
    """Read the body of `POST /responses`."""
    try:
        raw = msgspec.json.decode(body)
        read = msgspec.convert(raw, _ResponsesBody)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _refusal(error)
    items = [_Wire(content=read.input)] if isinstance(read.input, str) else read.input
    system = [_Wire(role="system", content=read.instructions)] if read.instructions else []
    return _ask(
        raw,
        read,
        dialect="responses",
        messages=tuple(_message(item) for item in [*system, *items]),
        effort=read.reasoning.effort if read.reasoning else None,
        max_output=read.max_output_tokens,
        background=bool(read.background),
    )


def _ask(
    raw: dict[str, Any],
    read: _Body,
    *,
    dialect: Dialect,
    messages: tuple[Message, ...],
    effort: str | None,
    max_output: int | None,
    include_usage: bool = False,
    background: bool = False,
) -> Ask | Refusal:
    if effort is not None and effort not in EFFORTS:
        param = "reasoning_effort" if dialect == "chat" else "reasoning.effort"
        return Refusal(
            message=f"Unsupported value for '{param}'. Supported values are: {', '.join(EFFORTS)}.",
            param=param,
            code="unsupported_value",
        )
    seen = [[message.role, message.text] for message in messages]
    return Ask(
        dialect=dialect,
        model=read.model,
        messages=messages,
        stream=bool(read.stream),
        include_usage=include_usage,
        max_output=max_output,
        effort=effort or "medium",
        max_reasoning=read.max_reasoning_tokens,
        flush_every=read.reasoning_chunk_buffer,
        background=background,
        parameters=_parameters(raw),
        seed=seed_of([read.model, seen, read.seed]),
        identity=seed_of(raw).hex(),
    )


def _message(item: _Wire) -> Message:
    if isinstance(item.content, str):
        return Message(item.role, item.content)
    parts = [part.get("text") for part in item.content or ()]
    return Message(item.role, "".join(part for part in parts if isinstance(part, str)))


def _parameters(raw: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in raw.items() if name not in _TEXTS}
    if len(msgspec.json.encode(kept)) > PARAMETERS_BYTES:
        return dict.fromkeys(kept)
    return kept


def _refusal(error: Exception) -> Refusal:
    text = str(error)
    found = _MISSING.search(text) or _PATH.search(text)
    if found is None:
        return Refusal(message="We could not parse the JSON body of your request.")
    if _MISSING.search(text):
        return Refusal(
            message=f"Missing required parameter: '{found[1]}'.",
            param=found[1],
            code="missing_required_parameter",
        )
    return Refusal(message=f"Invalid type for '{found[1]}'.", param=found[1], code="invalid_type")
