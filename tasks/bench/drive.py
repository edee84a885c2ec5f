"""Sends prompts, so many at a time, until all are through or something says stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from settings.errors import LongstreamError
from tasks.bench.book import Book
from tasks.bench.plan import Task
from tasks.bench.purse import Purse
from tasks.bench.sample import Sample

#: When the first so many samples have all failed, the rest would fail too.
HOPELESS = 20

#: Between the first samples: what all begin at once would measure is the crowd.
RAMP_S = 0.05

One = Callable[[Task], Coroutine[Any, Any, Sample]]


class Hopeless(LongstreamError):
    """Nothing succeeds."""


class Drive:
    """One phase of a run. `heard` is told of every sample that ended."""

    def __init__(
        self, phase: str, book: Book, purse: Purse, heard: Callable[[Sample], None]
    ) -> None:
        self._phase = phase
        self._book = book
        self._purse = purse
        self._heard = heard
        self._good = any(sample.good for sample in book.of(phase))
        self._bad = 0
        #: True when the spend limit ended it.
        self.stopped = False

    async def run(self, tasks: Iterator[Task], one: One, concurrency: int) -> None:
        """Raises Hopeless when nothing succeeds."""
        began = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for place in range(concurrency):
                    group.create_task(self._work(tasks, one, place * RAMP_S))
        except* LongstreamError as errors:
            raise _first(errors) from None
        finally:
            self._book.spend(self._phase, time.monotonic() - began)
        self.stopped = next(tasks, None) is not None

    async def _work(self, tasks: Iterator[Task], one: One, after_s: float) -> None:
        """Ends when the limit leaves no room: with fewer at a time, it may do for the others."""
        await asyncio.sleep(after_s)
        while self._purse.reserve():
            try:
                task = next(tasks, None)
                if task is None:
                    return
                self._book.begin(self._phase, task.n)
                sample = await one(task)
            finally:
                self._purse.release()
            self._purse.settle(sample)
            self._book.end(sample)
            self._heard(sample)
            self._judge(sample)

    def _judge(self, sample: Sample) -> None:
        self._good |= sample.good
        self._bad += not sample.good
        if not self._good and self._bad >= HOPELESS:
            raise Hopeless(
                f"the first {self._bad} samples all failed; the last: {sample.detail}. Once that is"
                " mended, begin anew with --fresh"
            )


def _first(errors: ExceptionGroup[LongstreamError]) -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
