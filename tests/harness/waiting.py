"""Waiting for conditions, never for durations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(what: str, condition: Callable[[], T], timeout_s: float = 20.0) -> T:
    """The condition's first true answer; AssertionError naming `what` when it stays false."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.01)
    return answer
