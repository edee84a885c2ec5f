"""What one answer has used, asked afterwards: for streams that were cut before they said it.

Some providers keep count of every generation and answer for it under its id. The counts of the
model's own tokenizer are what is billed; those without a prefix are for comparing models.
"""

from __future__ import annotations

import msgspec

from worker.upstream.happenings import Usage


class _Id(msgspec.Struct):
    id: str = ""


class _Data(msgspec.Struct):
    native_tokens_prompt: int | None = None
    native_tokens_completion: int | None = None
    native_tokens_reasoning: int | None = None
    native_tokens_cached: int | None = None
    tokens_prompt: int | None = None
    tokens_completion: int | None = None


class _Answer(msgspec.Struct):
    data: _Data


_id = msgspec.json.Decoder(_Id)
_answer = msgspec.json.Decoder(_Answer)


def id_in(document: bytes) -> str:
    """The id in the first document of a stream; empty when it has none."""
    try:
        return _id.decode(document).id
    except (msgspec.DecodeError, RecursionError):
        return ""


def usage_in(body: bytes) -> Usage | None:
    """None when the body does not say."""
    try:
        data = _answer.decode(body).data
    except (msgspec.DecodeError, RecursionError):
        return None
    given, made = data.native_tokens_prompt, data.native_tokens_completion
    if given is None or made is None:
        given, made = data.tokens_prompt, data.tokens_completion
    if given is None or made is None:
        return None
    return Usage(given, data.native_tokens_cached or 0, made, data.native_tokens_reasoning or 0)
