"""What a run asks. Task n is the same in every run: kinds alternate, and efforts take turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

HEAVY, VISIBLE = "reasoning-heavy", "visible-heavy"
KINDS = (HEAVY, VISIBLE)

#: What a task may produce at most: no answer asked for here comes near it.
MAX_OUTPUT_TOKENS = 8_192

_TOPICS = (
    "a bounded queue", "an idempotent request", "a fencing token", "a write-ahead log",
    "exponential backoff", "a token bucket", "backpressure", "a lease", "a hash ring",
    "a circuit breaker", "a vector clock", "a tombstone", "a checksum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    n: int
    kind: str
    effort: str
    prompt: str


#: What a task was meant to get; None when that can not be told.
Truth = Callable[[Task], Awaitable[str | None]]


def task(n: int, efforts: Sequence[str]) -> Task:
    """Task number `n`, from 0."""
    kind = KINDS[n % len(KINDS)]
    effort = efforts[n // len(KINDS) % len(efforts)]
    return Task(n, kind, effort, _heavy(n) if kind == HEAVY else _visible(n))


def _heavy(n: int) -> str:
    return (
        f"Task {n + 1}, {HEAVY}: how many whole numbers from 1 to {1_000 + 37 * n} are divisible by"
        f" none of 2, 3, 7 and 11 and have a sum of digits divisible by {3 + n % 5}? Think it"
        " through with care, in about 4,000 tokens, and check the result in a second way. Then"
        " answer in about 80 words: the number, and how it was found."
    )


def _visible(n: int) -> str:
    topic = _TOPICS[n // len(KINDS) % len(_TOPICS)]
    return (
        f"Task {n + 1}, {VISIBLE}: without long deliberation, explain {topic} to a new colleague in"
        " about 250 words, with one example."
    )
