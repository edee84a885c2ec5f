"""What attempts have used, as values; and what those must have used that never said.

The provider's own number is exact. Where there is none, because a stream was cut, a worker died or
a job was stopped, it is reckoned from what came, and marked as an estimate. Attempts that take up
the same response again pay for one response together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from worker.log import entries
from worker.log.entries import Mode, Tokens
from worker.log.stored import Stored
from worker.outcomes import Outcome

#: Characters a token has on average, in English and in code.
_TOKEN_CHARS = 4

#: Outcomes that leave nothing to use: whatever was paid for them is thrown away.
WASTED = frozenset({Outcome.FAILED, Outcome.CANCELLED, Outcome.EXPIRED, Outcome.INTERRUPTED})

WORKER_LOST = "worker lost"
#: The note of an attempt that asked for another model; its name begins with that model.
FALLBACK = "fallback"


class Spending(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one attempt used. `wasted`: why nothing came of it, empty when something did.
    `at_ms`: when it ended, by the server's clock."""

    attempt: int
    at_ms: int
    key: str = ""
    model: str = ""
    tokens: Tokens = Tokens()
    wasted: str = ""
    estimated: bool = False


def text_tokens(chars: int) -> int:
    """About how many tokens so much text is."""
    return math.ceil(chars / _TOKEN_CHARS)


class _Response(msgspec.Struct):
    """What the log has of one response, over all attempts that took it up."""

    last: int
    key: str
    model: str
    chars: int = 0
    thinking: dict[int, int] = msgspec.field(default_factory=dict)


def unsaid(
    log: Iterable[Stored], after: int, mode: Mode, prompt: int, at_ms: int
) -> list[Spending]:
    """What the attempts behind `after` used that ended without saying. `mode`: of the attempt that
    comes now; one that goes on behind their text makes use of it."""
    responses = _responses(log, after)
    return [
        Spending(
            attempt=response.last,
            at_ms=at_ms,
            key=response.key,
            model=response.model,
            tokens=_tokens(response, prompt),
            wasted="" if mode is Mode.CONTINUE and response is responses[-1] else WORKER_LOST,
            estimated=True,
        )
        for response in responses
    ]


def _responses(log: Iterable[Stored], after: int) -> list[_Response]:
    found: list[_Response] = []
    for each in log:
        if each.at.attempt <= after:
            continue
        entry = entries.decode(each.payload)
        if isinstance(entry, entries.Attempt):
            if entry.mode is Mode.REATTACH and found:
                found[-1].last = each.at.attempt
            elif entry.mode is not Mode.CLOSE:
                found.append(_Response(each.at.attempt, entry.key, entry.model))
        elif found and isinstance(entry, entries.Text):
            found[-1].chars += len(entry.text)
        elif found and isinstance(entry, entries.Note) and entry.what == FALLBACK:
            found[-1].model = entry.name.partition(": ")[0]
        elif found and isinstance(entry, entries.Thinking):
            found[-1].thinking[each.at.attempt] = entry.tokens
    return found


def _tokens(response: _Response, prompt: int) -> Tokens:
    thinking = sum(response.thinking.values())
    output = thinking + text_tokens(response.chars)
    return Tokens(input=prompt, output=output, reasoning=thinking)
