"""What this process counts: plain numbers that cost next to nothing to change.

Nothing is computed here and nothing imported that shows them; `exposition` does both when somebody
asks. Histograms are changed by the engine's loop alone and take no lock; counters by any thread.
Labels are bounded by the configuration or by the code: no job, no tenant, no prompt is one.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Of what happens with every delta, one in so many is measured.
SAMPLED = 32

#: More values of a label that users choose than this are counted together, as `other`.
MOST_VALUES = 50
OTHER = "other"

_SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TOKENS_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.09, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LONG_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_CALLS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One histogram under one set of labels. `counts` has one place more than `bounds`."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: list[float]

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total[0] += value


class Counter:
    """A number for each combination of labels that was met."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self.values: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def add(self, *labels: str, by: float = 1) -> None:
        assert len(labels) == len(self.labels)
        with self._lock:
            self.values[labels] = self.values.get(labels, 0) + by


class Gauge:
    """A number as it is now, for each combination of labels."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self.values: dict[tuple[str, ...], float] = {}

    def set(self, *labels: str, to: float) -> None:
        assert len(labels) == len(self.labels)
        self.values[labels] = to

    def add(self, *labels: str, by: float) -> None:
        self.set(*labels, to=self.values.get(labels, 0) + by)


class Histogram:
    """A distribution for each combination of labels that was met."""

    def __init__(
        self, name: str, meaning: str, bounds: tuple[float, ...], labels: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = tuple(labels)
        self._bounds = bounds
        self.values: dict[tuple[str, ...], Distribution] = {}

    def of(self, *labels: str) -> Distribution:
        """The distribution under these labels; keep it where it is used often."""
        assert len(labels) == len(self.labels)
        found = self.values.get(labels)
        if found is None:
            found = Distribution(self._bounds, [0] * (len(self._bounds) + 1), [0.0])
            found = self.values.setdefault(labels, found)
        return found


class Few:
    """The first values of a label that users choose; every further one is `other`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def name(self, value: str) -> str:
        if value not in self._known:
            if len(self._known) >= MOST_VALUES:
                return OTHER
            self._known.add(value)
        return value


class Meters:
    """Everything a worker process counts."""

    def __init__(self) -> None:
        self.attempts = Counter(
            "attempts",
            "Attempts begun, by mode: start is a job's first, every other one is a recovery.",
            ("pool", "mode"),
        )
        self.ended = Counter("jobs_ended", "Jobs this worker sealed.", ("pool", "outcome"))
        self.yielded = Counter(
            "attempts_yielded",
            "Attempts that ended without a seal: the job waits again or is another worker's.",
            ("pool", "why"),
        )
        self.failures = Counter(
            "upstream_failures",
            "Requests that failed; kind rate_limited is a 429, after_text yes a cut answer.",
            ("key", "kind", "after_text"),
        )
        self.rejoined = Counter(
            "streams_rejoined", "Cut streams taken up again within their attempt.", ("key",)
        )
        self.reclaimed = Counter(
            "leases_reclaimed", "Expired leases whose jobs this worker put back.", ("pool",)
        )
        self.tokens = Counter(
            "tokens", "Tokens that providers said a sealed job used.", ("key", "kind")
        )
        self.not_renewed = Counter("renewals_failed", "Heartbeats the store did not take.")
        self.unreachable = Counter(
            "store_retries", "Batches the store did not take, which were sent again."
        )
        self.waited = Histogram(
            "wait_seconds", "From submit to the first attempt.", _LONG_S, ("pool",)
        )
        self.first_token = Histogram(
            "first_token_seconds",
            "From the request to the first token, of reasoning or of text.",
            _LONG_S,
            ("key", "kind"),
        )
        self.inter_token = Histogram(
            "inter_token_seconds",
            "Between two chunks that brought text; one gap in 32 is measured.",
            _TOKENS_S,
            ("key",),
        )
        self.to_log = Histogram(
            "wire_to_log_seconds",
            "From the read that brought text to its being stored; one in 16 is measured.",
            _SHORT_S,
        )
        self.batch = Histogram(
            "store_batch_calls",
            "Calls of all streams that went out together; one batch in 32 is measured.",
            _CALLS,
        )
        self.exchange = Histogram(
            "store_exchange_seconds",
            "From sending a batch to its last reply; one batch in 32 is measured.",
            _SHORT_S,
        )

    def all(self) -> list[Meter]:
        return meters_of(self)


Meter = Counter | Gauge | Histogram


def meters_of(owner: object) -> list[Meter]:
    """The meters an object is made of, in the order they were made."""
    return [each for each in vars(owner).values() if isinstance(each, (Counter, Gauge, Histogram))]


#: This process's.
METERS: Final = Meters()
