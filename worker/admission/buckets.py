"""The arithmetic of one limit, without a store: GCRA with a burst, and jobs larger than it.

The rule it owns: with `burst` below 1, what is taken in any window of one period never exceeds
the limit. A bucket refills at the rate of the limit less its width, and holds its width at once:
together that is the limit. The width is the burst, or the largest job of the last period if that
is larger, since a job is taken whole; a job that makes it grow waits for what was given out before
at the old rate, as if it had been foreseen. With `burst` 1 the bucket is the one most providers
have: it refills at the full rate, and up to twice the limit fits into one unlucky window.

`buckets.lua` is the same in the store; this one is its oracle, and what benchmarks judge by.
Times are milliseconds, amounts whatever the limit counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Periods a large job is remembered: one is needed, a little more lets the next follow at once.
MEMORY = 1.25


@dataclass(frozen=True, slots=True)
class Bucket:
    """`tat`: when everything taken so far is paid off."""

    limit: float
    burst: float = 0.05
    period: float = 60_000.0
    tat: float = 0.0
    #: The largest job of late, until when it counts, and the largest that came after it.
    widest: float = 0.0
    wide_until: float = 0.0
    wide_next: float = 0.0
    #: Since when it has never been paid off: what was taken before can not come back any more.
    busy_since: float = 0.0

    def wait(self, cost: float, now: float) -> float:
        """How long until `cost` fits; 0 when it fits now. Always finite."""
        width = self._width(now)
        fitting = min(cost, self.limit)
        if fitting > width:
            return max(0.0, self.tat + (fitting - width) * self._interval(width) - now)
        behind = max(self.tat, now) + self._charge(width, cost) - now
        return max(0.0, behind - self._room(width))

    def take(self, cost: float, now: float) -> Bucket:
        """The bucket after `cost` was taken, fitting or not."""
        fitting = min(cost, self.limit)
        bucket = self._remembering(fitting, now) if fitting > self.limit * self.burst else self
        charge = self._charge(max(self._width(now), fitting), cost)
        since = now if self.tat <= now else self.busy_since
        return replace(bucket, tat=max(self.tat, now) + charge, busy_since=since)

    def refund(self, cost: float, used: float, now: float) -> float:
        """What comes back of a charge made now when less than `cost` turns out to be used, in ms.

        It is no share of it: a large job pays for its width, too.
        """
        width = max(self._width(now), min(cost, self.limit))
        return self._charge(width, cost) - self._charge(width, used)

    def give_back(self, ms: float, taken_at: float) -> Bucket:
        """Undo a part of a charge. What time has paid off since is not given back twice."""
        return replace(self, tat=self.tat - ms) if taken_at >= self.busy_since else self

    def headroom(self, now: float) -> float:
        """The share of the burst that is free, from 0 to 1."""
        return max(0.0, 1 - max(0.0, self.tat - now) / self._room(self._width(now)))

    def left(self, now: float) -> float:
        """What could be taken now in small pieces."""
        width = self._width(now)
        return max(0.0, self._room(width) - max(0.0, self.tat - now)) / self._interval(width)

    def tighten(self, left: float, now: float) -> Bucket:
        """Let nobody take more than `left` now; only ever tightens."""
        width = self._width(now)
        behind = max(0.0, self._room(width) - left * self._interval(width))
        return replace(self, tat=max(self.tat, now + behind))

    def _width(self, now: float) -> float:
        least = self.limit * self.burst
        if now < self.wide_until:
            return max(least, self.widest)
        forgotten = self.wide_until + MEMORY * self.period
        return max(least, self.wide_next) if now < forgotten else least

    def _remembering(self, large: float, now: float) -> Bucket:
        """What counts is the largest job; when it is forgotten, the largest that came after it."""
        memory = MEMORY * self.period
        if large >= self._width(now):
            return replace(self, widest=large, wide_until=now + memory, wide_next=0.0)
        if now < self.wide_until:
            return replace(self, wide_next=max(self.wide_next, large))
        until = self.wide_until + memory
        return replace(self, widest=self.wide_next, wide_until=until, wide_next=large)

    def _interval(self, width: float) -> float:
        if self.burst >= 1:
            return self.period / self.limit
        return self.period / max(self.limit - width, self.limit / 1000)

    def _charge(self, width: float, cost: float) -> float:
        paced = min(cost * self._interval(width), self.period)
        return max(paced, cost * self.period / self.limit)

    def _room(self, width: float) -> float:
        return min(width * self._interval(width), self.period)
