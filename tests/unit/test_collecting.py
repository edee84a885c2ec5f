"""A full collection holds every stream up: it waits until none runs, and not for ever."""

from __future__ import annotations

import gc

import pytest

from worker.collecting import BUSY_S, IDLE_S, Collector


class Watched(Collector):
    """Its clock is turned by hand, and it notes when it collected."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.collected: list[float] = []
        super().__init__(lambda: self.collected.append(self.at), lambda: self.at)

    def pass_time(self, seconds: float, running: int) -> None:
        for _ in range(int(seconds)):
            self.at += 1.0
            self.look(running)


def test_a_stream_is_held_up_once_in_a_long_while() -> None:
    collector = Watched()

    collector.pass_time(3 * BUSY_S - 1, running=1)

    assert collector.collected == [1000 + BUSY_S, 1000 + 2 * BUSY_S]


def test_when_the_last_stream_has_ended_is_the_time_for_it() -> None:
    collector = Watched()
    collector.pass_time(IDLE_S + 5, running=1)
    collector.pass_time(BUSY_S - 1, running=0)

    assert collector.collected == [1000 + IDLE_S + 6]


def test_where_nothing_ran_there_is_little_to_find() -> None:
    """Connections that were lost, of a worker that waits: they may hold themselves."""
    collector = Watched()
    collector.pass_time(3 * BUSY_S - 1, running=0)

    assert collector.collected == [1000 + BUSY_S, 1000 + 2 * BUSY_S]


def test_python_begins_none_by_itself_until_that_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[int, ...]] = []
    monkeypatch.setattr(gc, "set_threshold", lambda *to: told.append(to))
    before = gc.get_threshold()

    collector = Collector()
    collector.take_over()
    collector.give_back()

    (young, middle, full), given_back = told
    assert (young, middle) == before[:2]
    assert full >= 1_000_000
    assert given_back == before
