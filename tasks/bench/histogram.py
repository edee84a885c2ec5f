"""Distributions of durations, in buckets of 2 %: small enough to store, exact enough to quote.

A quantile lies within 1 % of the true one, above a microsecond. Adding two histograms is the same
as having counted into one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

_RATIO = 1.02
_LEAST_S = 1e-6
_LOG = math.log(_RATIO)


class Histogram(msgspec.Struct, array_like=True):
    """`counts` by bucket; bucket i begins at `_LEAST_S * _RATIO**i`, and 0 holds all below."""

    counts: dict[int, int] = {}

    def add(self, seconds: float, times: int = 1) -> None:
        bucket = 0 if seconds <= _LEAST_S else math.floor(math.log(seconds / _LEAST_S) / _LOG)
        self.counts[bucket] = self.counts.get(bucket, 0) + times

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """The value that `share` of all do not exceed, by nearest rank; None of nothing."""
        left = max(1, math.ceil(share * self.total))
        for bucket, count in sorted(self.counts.items()):
            left -= count
            if left <= 0:
                return float(_LEAST_S * _RATIO ** (bucket + 0.5))
        return None

    def bars(self, width: int) -> list[tuple[float, float, int]]:
        """From, to and count of every bar, `width` buckets each, without holes."""
        if not self.counts:
            return []
        merged: dict[int, int] = {}
        for bucket, count in self.counts.items():
            merged[bucket // width] = merged.get(bucket // width, 0) + count
        return [
            (_start(place * width), _start((place + 1) * width), merged.get(place, 0))
            for place in range(min(merged), max(merged) + 1)
        ]


def total_of(histograms: Iterable[Histogram]) -> Histogram:
    summed: dict[int, int] = {}
    for each in histograms:
        for bucket, count in each.counts.items():
            summed[bucket] = summed.get(bucket, 0) + count
    return Histogram(summed)


def of_values(values: Iterable[float]) -> Histogram:
    found = Histogram()
    for value in values:
        found.add(value)
    return found


def _start(bucket: int) -> float:
    return _LEAST_S * _RATIO**bucket
