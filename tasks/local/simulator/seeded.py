"""Chance that repeats itself: the same request draws the same numbers in every process.

Only `random()` and what is built on it is used: the other methods of `random.Random` changed
their sequences between Python versions.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


def seed_of(value: object) -> bytes:
    """The hash of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).digest()


class Chance:
    """A sequence of draws; one per purpose, so that one draw more here moves nothing there."""

    def __init__(self, seed: bytes, purpose: str) -> None:
        digest = hashlib.sha256(seed + purpose.encode()).digest()
        self.fraction = random.Random(digest).random  # noqa: S311 - repeatable on purpose

    def below(self, limit: int) -> int:
        return int(self.fraction() * limit)

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def happens(self, share: float) -> bool:
        return self.fraction() < share

    def log_uniform(self, low: float, high: float) -> float:
        return low * math.exp(math.log(high / low) * self.fraction())

    def log_normal(self, median: float, sigma: float) -> float:
        radius = math.sqrt(-2.0 * math.log(1.0 - self.fraction()))
        return median * math.exp(sigma * radius * math.cos(2.0 * math.pi * self.fraction()))
