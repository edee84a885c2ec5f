"""The arithmetic of one limit, without a store: an even pace with a burst, and a sliding window.

The rule it owns: with `burst` below 1, what is taken in any window of one period never exceeds the
limit, whatever is given back meanwhile. A period is counted in pieces, and what is taken counts in
the piece of its time until no window reaches that any more: one piece longer than the period. What
comes back is taken out of the piece it counted in, so it can be used again at once, and by nobody
twice. The pace spreads the limit evenly over a period and one piece, so all but 1/21 of it can be
used; the burst is what may be ahead of the pace. A job larger than the burst waits until the pace
has caught up, and is taken whole.

With `burst` 1 the bucket is the one most providers have: it holds a period's worth and refills
evenly, and up to twice the limit fits into one unlucky window.

`buckets.lua` is the same in the store; this one is its oracle, and what benchmarks judge by. Times
are milliseconds, amounts whatever the limit counts.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

PIECES = 20
#: A window that does not begin with a piece reaches one more.
CELLS = PIECES + 1

_ROUNDING = 1e-6


class Bucket(msgspec.Struct, frozen=True):
    """`tat`: when everything taken so far is paid off, at the pace."""

    limit: float
    burst: float = 0.05
    period: float = 60_000.0
    tat: float = 0.0
    #: The number of the youngest piece, and the units in all of them by number modulo CELLS.
    piece: int = 0
    pieces: tuple[float, ...] = (0.0,) * CELLS

    def wait(self, cost: float, now: float) -> float:
        """How long until `cost` fits; 0 when it fits now. Always finite."""
        room = self.room
        wait = self.tat + min(cost * self.interval, room) - room - now
        if self.strict:
            wait = max(wait, self._wait_in_window(cost, now))
        return max(0.0, wait)

    def take(self, cost: float, now: float) -> Bucket:
        """The bucket after `cost` was taken, fitting or not; it counts in its `piece`."""
        bucket = replace(self._forgetting(now), tat=max(self.tat, now) + cost * self.interval)
        return bucket._counting(bucket.piece, cost)

    def correct(self, piece: int, units: float, now: float) -> Bucket:
        """Count more or fewer units for what was taken in `piece`."""
        tat = self.tat if units < 0 else max(self.tat, now)
        bucket = replace(self, tat=tat + units * self.interval)
        if not bucket._reaches(piece):
            # What turns out to be more is owed from now on.
            piece = bucket.piece
            units = max(0.0, units)
        return bucket._counting(piece, units)

    def headroom(self, now: float) -> float:
        """The share of the burst that is free, from 0 to 1."""
        return max(0.0, 1 - max(0.0, self.tat - now) / self.room)

    def left(self, now: float) -> float:
        """What is left of the limit in the window that ends now, or of the provider's bucket."""
        if self.strict:
            return max(0.0, self.limit - sum(self._forgetting(now).pieces))
        return self.limit * self.headroom(now)

    def tighten(self, left: float, now: float) -> Bucket:
        """Let nobody take more than `left` now; only ever tightens."""
        if not self.strict:
            behind = max(0.0, self.room - left * self.interval)
            return replace(self, tat=max(self.tat, now + behind)) if behind else self
        bucket = self._forgetting(now)
        return bucket._counting(bucket.piece, max(0.0, bucket.left(now) - left))

    @property
    def strict(self) -> bool:
        return self.burst < 1

    @property
    def interval(self) -> float:
        """Milliseconds of one unit at the pace."""
        return interval(self.limit, self.burst, self.period)

    @property
    def room(self) -> float:
        return room(self.burst, self.period)

    def _wait_in_window(self, cost: float, now: float) -> float:
        bucket = self._forgetting(now)
        missing = sum(bucket.pieces) + min(cost, self.limit) - self.limit
        piece = bucket.piece - CELLS
        while missing > _ROUNDING and piece < bucket.piece:
            piece += 1
            missing -= bucket.pieces[piece % CELLS]
        return (piece + CELLS) * self.period / PIECES - now

    def _forgetting(self, now: float) -> Bucket:
        piece, last = int(now // (self.period / PIECES)), self.piece
        if last - CELLS < piece <= last:
            return self
        if piece < last:
            # The clock was set back: it was taken, whenever that was.
            emptied = replace(self, piece=piece, pieces=(0.0,) * CELLS)
            return emptied._counting(piece, sum(self.pieces))
        if piece > last + PIECES:
            return replace(self, piece=piece, pieces=(0.0,) * CELLS)
        gone = {old % CELLS for old in range(last + 1, piece + 1)}
        kept = (0.0 if cell in gone else units for cell, units in enumerate(self.pieces))
        return replace(self, piece=piece, pieces=tuple(kept))

    def _reaches(self, piece: int) -> bool:
        return self.piece - CELLS < piece <= self.piece

    def _counting(self, piece: int, units: float) -> Bucket:
        pieces = list(self.pieces)
        pieces[piece % CELLS] = max(0.0, pieces[piece % CELLS] + units)
        return replace(self, pieces=tuple(pieces))


def interval(limit: float, burst: float, period: float) -> float:
    """Milliseconds of one unit at the pace."""
    return period / limit * (CELLS / PIECES if burst < 1 else 1)


def room(burst: float, period: float) -> float:
    """How far ahead of the pace one may be, in ms."""
    return period * burst * CELLS / PIECES if burst < 1 else period
