"""The Chat Completions dialect: answers as `chat.completion.chunk` events, or as one object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.beats import Beat, Kind, beats
from tasks.local.simulator.events import DONE, Event

encode = msgspec.json.encode


def completion_id(ask: Ask) -> str:
    return f"chatcmpl-{ask.identity[:29]}"


def events(ask: Ask, answer: Answer) -> Iterator[Event]:
    """The stream of an answer: role, deltas, finish, usage if asked for, `[DONE]`."""
    template = _Template(ask, answer)
    thinking = 0
    for beat in beats(ask, answer):
        if beat.kind is Kind.TEXT or beat.kind is Kind.THINK:
            thinking += beat.tokens if beat.kind is Kind.THINK else 0
            yield template.delta(beat)
        elif beat.kind is Kind.KEEPALIVE:
            yield Event(comment="keep-alive", pause_s=beat.pause_s)
        elif beat.kind is Kind.OPEN:
            first = {"role": "assistant", "content": "", "refusal": None}
            yield Event(data=chunk(ask, first), pause_s=beat.pause_s)
        else:
            yield Event(data=chunk(ask, {}, answer.finish), finish=answer.finish)
    if ask.include_usage:
        yield Event(data=usage_chunk(ask, usage(ask, len(answer.tokens), thinking)))
    yield Event(data=DONE)


def chunk(ask: Ask, delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One chunk with one choice."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return encode(envelope(ask) | {"choices": [choice]} | _no_usage(ask))


def usage_chunk(ask: Ask, billed: dict[str, Any]) -> bytes:
    return encode(envelope(ask) | {"choices": [], "usage": billed})


def completion(ask: Ask, text: str, finish: str, billed: dict[str, Any], *, refusal: bool) -> bytes:
    """The whole answer as the one object of a request that did not ask for a stream."""
    message = {
        "role": "assistant",
        "content": None if refusal else text,
        "refusal": text if refusal else None,
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish or None}
    shared = envelope(ask) | {"object": "chat.completion"}
    return encode(shared | {"choices": [choice], "usage": billed})


def envelope(ask: Ask) -> dict[str, Any]:
    """The fields that every chunk of an answer shares."""
    return {
        "id": completion_id(ask),
        "object": "chat.completion.chunk",
        "created": ask.created,
        "model": ask.model,
        "service_tier": "default",
        "system_fingerprint": f"fp_sim_{ask.identity[-10:]}",
    }


def usage(ask: Ask, visible: int, thinking: int) -> dict[str, Any]:
    """A usage object; completion tokens are the visible and the reasoning ones together."""
    return {
        "prompt_tokens": ask.prompt_tokens,
        "completion_tokens": visible + thinking,
        "total_tokens": ask.prompt_tokens + visible + thinking,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": thinking,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _no_usage(ask: Ask) -> dict[str, Any]:
    return {"usage": None} if ask.include_usage else {}


class _Template:
    """Encodes a delta by putting one JSON string between bytes that never change."""

    def __init__(self, ask: Ask, answer: Answer) -> None:
        field = "refusal" if answer.refusal else "content"
        self._text = self._around(ask, field)
        self._thinking = self._around(ask, "reasoning_content")

    @staticmethod
    def _around(ask: Ask, field: str) -> tuple[bytes, bytes]:
        before, after = chunk(ask, {field: "\x00"}).split(rb'"\u0000"')
        return before, after

    def delta(self, beat: Beat) -> Event:
        if beat.kind is Kind.TEXT:
            before, after = self._text
            return Event(
                data=before + encode(beat.text) + after,
                pause_s=beat.pause_s,
                text=beat.text,
                text_tokens=beat.tokens,
            )
        before, after = self._thinking
        return Event(
            data=before + encode(beat.text) + after,
            pause_s=beat.pause_s,
            joined=beat.joined,
            thinking_tokens=beat.tokens,
        )
