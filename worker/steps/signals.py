"""Signals one at a time.

What handles a signal takes locks, Celery's among them, and Python runs the handler of the next one
in the middle of it: there it would wait for itself, for ever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


def one_at_a_time(number: int) -> None:
    """From now on this signal waits while an earlier one of it is handled."""
    handler = signal.getsignal(number)
    if callable(handler) and threading.current_thread() is threading.main_thread():
        signal.signal(number, _OneAtATime(handler))


class _OneAtATime:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._waiting: list[FrameType | None] = []
        self._busy = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append(frame)
        # One that comes behind the last look at what waits looks itself.
        while self._waiting and not self._busy:
            self._busy = True
            try:
                while self._waiting:
                    self._handler(number, self._waiting.pop())
            finally:
                self._busy = False
