"""The bytes that are measured: 70 KB bursts of reasoning, one visible delta behind each.

`REALISTIC` events carry what providers send beside the token, about 360 bytes in all; `TERSE` ones
carry the token and nothing else, about 51 bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

BURST_BYTES = 70_000
READS = {"64 B": 64, "1,400 B": 1_400, "16 KB": 16_384, "70 KB": BURST_BYTES}

_THOUGHTS = (" it", " is", " a", " lock", "ed", " loop", ",", " so", " we", " go", " on", ".")
_ANSWER = ("Move ", "the wait ", "out of ", "the lock", ". ")


@dataclass(frozen=True, slots=True)
class Body:
    """A whole stream. `events` counts its JSON documents; the sentinel is none."""

    data: bytes
    events: int
    text: str

    def reads(self, size: int) -> list[bytes]:
        """The body as reads of `size` bytes, the last one shorter."""
        return [self.data[at : at + size] for at in range(0, len(self.data), size)]


def realistic(delta: dict[str, str], finish: str | None = None) -> bytes:
    document = {
        "id": "chatcmpl-9f3b7c21d8e64a05b1f2c3d4e5f60718",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": "gpt-5.5-codex-2026-08-14",
        "service_tier": "default",
        "system_fingerprint": "fp_5d1c9a7e42",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
        "usage": None,
        "obfuscation": "kT4zQ0aY7mWvR2xLb9Jf3Hs8",
    }
    return _event(document)


def terse(delta: dict[str, str], finish: str | None = None) -> bytes:
    ending = {} if finish is None else {"finish_reason": finish}
    return _event({"choices": [{"delta": delta} | ending]})


SHAPES = {"realistic": realistic, "terse": terse}
#: The name of the reasoning field, short where everything is.
FIELDS = {"realistic": "reasoning_content", "terse": "reasoning"}


def burst(shape: str, said: str) -> tuple[bytes, int]:
    """A burst with `said` behind it, and how many events that is."""
    event = SHAPES[shape]
    parts: list[bytes] = []
    size = 0
    while size < BURST_BYTES:
        parts.append(event({FIELDS[shape]: _THOUGHTS[len(parts) % len(_THOUGHTS)]}))
        size += len(parts[-1])
    parts.append(event({"content": said}))
    return b"".join(parts), len(parts)


def body(shape: str, bursts: int) -> Body:
    """A whole answer of so many bursts."""
    said = [_ANSWER[number % len(_ANSWER)] for number in range(bursts)]
    made = [burst(shape, words) for words in said]
    data = b"".join(data for data, _ in made) + SHAPES[shape]({}, "stop") + b"data: [DONE]\n\n"
    return Body(data, sum(count for _, count in made) + 1, "".join(said))


def _event(document: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(document, separators=(",", ":")).encode()
