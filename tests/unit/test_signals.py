"""Two signals in a row must not meet each other."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from worker.steps.signals import one_at_a_time


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_signal_that_comes_while_one_is_handled_is_handled_after_it() -> None:
    lock, handled = threading.Lock(), list[str]()

    def handle(number: int, _: object) -> None:
        free = lock.acquire(blocking=False)
        handled.append("begun" if free else "in the middle of another")
        if len(handled) < 3:
            os.kill(os.getpid(), number)
        handled.append("done")
        lock.release()

    signal.signal(signal.SIGTERM, handle)
    one_at_a_time(signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)

    assert handled == ["begun", "done", "begun", "done"]


def test_a_handler_that_raises_does_not_keep_the_next_signal_out() -> None:
    def handle(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, handle)
    one_at_a_time(signal.SIGTERM)

    for _ in range(2):
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)


def test_what_no_function_handles_is_left_alone() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    one_at_a_time(signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
