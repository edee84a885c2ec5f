"""What a client was seen to do, in words both clients are measured by."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

Api = Literal["chat", "responses"]
Numbers = tuple[int, int, int]

#: A client that has not come to an end by then waits for ever, as far as anyone can tell.
PATIENCE_S = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request to one scenario. The secret is its own, so the ledger can be asked for it."""

    model: str
    api: Api
    url: str
    secret: str
    prompt: str
    short: bool = False
    retries: bool = False
    inline: bool = False


@dataclass(slots=True)
class Seen:
    """One run. `error` is what was raised, or told as an error by an event; `ours` says that it is
    an error the client promises, and not one of some library below. `thinking` is None where a
    client has no such channel."""

    text: str = ""
    thinking: str | None = None
    thinking_tokens: int = 0
    refusal: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    usage: Numbers | None = None
    finish: str | None = None
    error: str = ""
    explained: str = ""
    ours: bool = True
    kind: str = ""
    retryable: bool | None = None
    delay_s: float | None = None
    hung: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What the simulator says it got and wrote, over all posts of one secret."""

    posts: int
    visible: str
    visible_sent: str
    usage: Numbers
    gaps_s: tuple[float, ...]


#: A client under measurement: fills in what it sees, and may raise whatever it raises.
Reader = Callable[[Question, Seen], Awaitable[None]]


async def watched(reader: Reader, question: Question) -> Seen:
    """One run of one client; whatever it raises is noted by the reader."""
    seen = Seen()
    began = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reader(question, seen)
    except TimeoutError:
        seen.hung = True
    seen.seconds = time.monotonic() - began
    return seen


async def sent_to(url: str, key: str) -> Sent:
    """The ledger's entries of one key, once the last of them has ended or stands still."""
    deadline = time.monotonic() + 2.0
    entries = await asyncio.to_thread(_entries, url, key)
    while entries and entries[-1]["ended"] is None and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        entries = await asyncio.to_thread(_entries, url, key)
    arrived = [entry["arrived"] for entry in entries]
    last = entries[-1] if entries else {"visible": "", "visible_sent": "", "usage": {}}
    usage = last["usage"]
    names = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    numbers = tuple(usage.get(name, 0) for name in names)
    gaps = tuple(later - earlier for earlier, later in pairwise(arrived))
    return Sent(len(entries), last["visible"], last["visible_sent"], numbers, gaps)  # type: ignore[arg-type]


def _entries(url: str, key: str) -> list[dict[str, Any]]:
    root = url.removesuffix("/v1")
    with urllib.request.urlopen(f"{root}/ledger?last=20", timeout=10) as answer:
        return [entry for entry in json.load(answer) if entry["key"] == key]
