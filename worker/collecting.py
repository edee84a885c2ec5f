"""When Python looks for garbage that holds itself: seldom at everything.

A full collection looks at all that lives, and nothing else happens meanwhile: with 1,000 streams
those are 228,000 objects and 170 ms. Python begins one whenever a quarter has come to that, which
is every half a minute where streams end and others begin. What they leave behind that only a
collection could find is small and holds no text (tests/contract/test_left_in_memory.py), so a full
one can wait until nothing runs, or for ten minutes; young objects are looked at as ever.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

#: Between two full collections, in seconds; and once nothing runs any more. Where nothing has run,
#: connections still come and go.
BUSY_S = 600.0
IDLE_S = 30.0

#: Of collections of the middle generation, before Python begins a full one.
_NEVER = 1_000_000


class Collector:
    """Of one process. `look` belongs to one thread."""

    def __init__(
        self,
        collect: Callable[[], object] = gc.collect,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._collect, self._now = collect, now
        self._at = now()
        self._before = gc.get_threshold()
        #: Something ran since the last full collection.
        self._due = False

    def take_over(self) -> None:
        """From now on Python begins no full collection by itself."""
        self._before = young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)

    def give_back(self) -> None:
        """Nobody will look any more: Python does it again."""
        gc.set_threshold(*self._before)

    def look(self, running: int) -> None:
        """Called now and then; `running`: how many streams a collection would hold up."""
        self._due |= running > 0
        if self._now() - self._at >= (IDLE_S if self._due and not running else BUSY_S):
            self._collect()
            self._at, self._due = self._now(), False
