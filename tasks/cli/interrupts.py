"""Ctrl-C between two steps, never inside one: what is shown and the cursor must agree."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """While in use, Ctrl-C inside a `step` waits for its end; a second one does not."""

    def __init__(self) -> None:
        self._busy = False
        self._pending = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._heard)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def step(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._pending:
            raise KeyboardInterrupt

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        if self._busy and not self._pending:
            self._pending = True
        else:
            raise KeyboardInterrupt
