"""The server's clock is set back, or a replica whose clock is behind takes over: what was to happen
in a while still does.

The fake server has the clock of the process, which can be set.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from settings.model import Account
from tests.conftest import Store
from tests.harness.lines import KEYS, POOL, Line
from worker.admission import line as calls
from worker.admission.line import Held, Patience
from worker.job.submitting import sweep
from worker.store.keys import SUBMITTING

pytestmark = pytest.mark.parametrize("store", ["fakeredis"], indirect=True)

HOUR_S = 3600.0
Clock = Callable[[float], None]


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Moves the clock of the server by so many seconds."""
    real, off = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + off[0])

    def move(seconds: float) -> None:
        off[0] += seconds

    return move


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync, {"a": Account(name="a")}, patience=Patience(9_000, 6_000))


def beat(line: Line, worker: str, *held: Held) -> calls.Beat:
    call = calls.renew(
        POOL,
        worker,
        held,
        slots=1,
        lease_ms=15_000,
        alive_ms=15_000,
        epoch=line.epoch,
        patience=line.patience,
    )
    return calls.beat(held, calls.run(line.client, call))


def test_a_dead_worker_is_missed_as_soon_as_without_it(line: Line, go: Clock) -> None:
    line.submit("j")
    (lease,) = line.ask("dead").leases
    calls.run(line.client, calls.start(lease, "dead", "r", lease_ms=15_000))
    beat(line, "dead", Held(lease))
    go(-HOUR_S)
    beat(line, "w2")
    go(8)
    assert line.ask("w2").reclaimed == ()
    go(8)
    answer = line.ask("w2")
    assert answer.reclaimed == (("j", "dead"),)
    assert [each.job_id for each in answer.leases] == ["j"]
    assert answer.gone == ("dead",)


def test_who_lives_keeps_its_lease(line: Line, go: Clock) -> None:
    line.submit("j")
    (lease,) = line.ask("w1").leases
    beat(line, "w1", Held(lease))
    go(-HOUR_S)
    for _ in range(5):
        assert beat(line, "w1", Held(lease)).lost == ()
        go(5)
    assert line.ask("w2").reclaimed == ()


def test_jobs_limits_and_rests_wait_no_longer_than_they_had_to(line: Line, go: Clock) -> None:
    line.accounts = {"a": Account(name="a", requests_per_minute=60)}
    line.submit("later", wait_ms=20_000)
    line.submit(*(f"j{number}" for number in range(5)))
    granted = line.ask().leases
    assert len(granted) == 3
    assert line.refuse(granted[0], 429, {"retry-after": "30"}) == "back"
    go(-HOUR_S)
    assert line.ask().leases == ()
    go(33)
    assert [each.job_id for each in line.ask().leases] == ["later"]
    line.client.delete(KEYS.rests)
    go(10)
    assert {each.job_id for each in line.ask().leases} == {"j0", "j3", "j4"}


def test_what_was_taken_before_still_counts(line: Line, go: Clock) -> None:
    """In every window, as the server's clock tells them."""
    line.accounts = {"a": Account(name="a", tokens_per_minute=1000)}
    line.submit("all", prompt=950, cap=50)
    assert len(line.ask().leases) == 1
    go(-HOUR_S)
    line.submit("more", prompt=100, cap=50)
    assert line.ask().leases == ()
    go(40)
    assert line.ask().leases == ()
    go(30)
    assert len(line.ask().leases) == 1


def test_a_limit_that_was_learned_does_not_collapse(line: Line, go: Clock) -> None:
    line.accounts = {"a": Account(name="a", requests_per_minute=1000)}
    line.submit("j")
    line.client.hset(KEYS.learned, "a", f'{{"requests":[500,{time.time() * 1000}]}}')
    line.settle(line.one())
    go(-HOUR_S)
    line.submit(*(f"k{number}" for number in range(20)))
    assert len(line.ask().leases) == 20


def test_a_submit_that_crashed_is_finished(store: Store, go: Clock) -> None:
    store.sync.zadd(SUBMITTING, {"j": time.time() * 1000})
    go(-HOUR_S)
    sweep(store.sync, 10_000)
    assert not store.sync.exists(SUBMITTING)
