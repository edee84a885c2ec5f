"""One server-sent event, before its framing, with the facts that the ledger wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`data` None and a `comment`: a block of comment only."""

    data: bytes | None = None
    name: str = ""
    comment: str = ""
    pause_s: float = 0.0
    joined: bool = False
    text: str = ""
    text_tokens: int = 0
    thinking_tokens: int = 0
    finish: str = ""


DONE = b"[DONE]"

#: From an answer to its events.
Shaping = Callable[[Ask, Answer], Iterator[Event]]


def reshaped(
    events: Iterable[Event], change: Callable[[dict[str, Any], Event], object]
) -> Iterator[Event]:
    """Every JSON object among `events` replaced by what `change` makes of it.

    `change` may alter the object it is given and return None, or return another payload.
    """
    for event in events:
        if event.data is None or event.data == DONE:
            yield event
            continue
        payload = msgspec.json.decode(event.data)
        result = change(payload, event)
        data = msgspec.json.encode(payload if result is None else result)
        yield msgspec.structs.replace(event, data=data)
