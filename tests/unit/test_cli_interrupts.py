from __future__ import annotations

import os
import signal

import pytest

from tasks.cli.interrupts import Interrupts


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_step_is_finished_before_ctrl_c_counts() -> None:
    done = []
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts.handled():  # noqa: PT012
        with interrupts.step():
            ctrl_c()
            done.append("shown")
        done.append("never")
    assert done == ["shown"]


def test_between_steps_ctrl_c_counts_at_once() -> None:
    done = []
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts.handled():  # noqa: PT012
        with interrupts.step():
            done.append("shown")
        ctrl_c()
        done.append("never")
    assert done == ["shown"]


def test_a_second_ctrl_c_does_not_wait_for_a_step_that_hangs() -> None:
    done = []
    interrupts = Interrupts()
    with pytest.raises(KeyboardInterrupt), interrupts.handled(), interrupts.step():  # noqa: PT012
        ctrl_c()
        done.append("first")
        ctrl_c()
        done.append("never")
    assert done == ["first"]


def test_what_was_there_before_is_there_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts().handled():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
