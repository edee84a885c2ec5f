"""Failures that others met in public with limits and queues, played on ours."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from settings.model import Account, Family
from tests.conftest import Store
from tests.harness.lines import KEYS, Line
from worker.admission import line as calls
from worker.store.keys import inbox_key, lasting_keys


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync, {"a": Account(name="a")})


def test_a_rate_limit_may_last_for_hours_and_costs_the_job_nothing(line: Line) -> None:
    line.submit("j")
    for _ in range(50):
        line.client.delete(KEYS.rests, KEYS.buckets)
        assert line.refuse(line.one(), 429) == "back"


def test_a_flushed_script_cache_breaks_no_operation(line: Line) -> None:
    """A restart or a failover forgets all scripts, between any two calls."""
    line.client.script_flush()
    line.submit("j")
    line.client.script_flush()
    lease = line.one()
    line.submit("k")
    line.client.script_flush()
    assert line.settle(lease, 5, ending="answered")
    line.client.script_flush()
    assert calls.run(line.client, calls.withdraw("p", "k")) in (b"waiting", b"held")


@pytest.mark.parametrize("off_s", [-5.0, 5.0, 3600.0])
def test_the_clock_of_a_worker_decides_nothing(
    line: Line, store: Store, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    if store.fake is not None:
        pytest.skip("the fake server has the same clock")
    line.accounts = {"a": Account(name="a", requests_per_minute=100, streams=50)}
    line.submit(*(f"j{number}" for number in range(20)))
    first = line.ask().leases
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + off_s)
    assert len(first) == 5
    assert line.ask("w2").leases == ()
    assert line.ask("w2").reclaimed == ()


def test_leases_settled_in_any_order_leave_exactly_what_was_used(line: Line) -> None:
    line.accounts = {"a": Account(name="a", tokens_per_minute=10**6)}
    line.submit(*(f"j{number}" for number in range(20)), prompt=1_000, cap=1_000)
    leases = list(line.ask().leases)
    for lease in leases:
        calls.run(line.client, calls.start(lease, "w1", "r", lease_ms=60_000))
    random.Random(3).shuffle(leases)
    for number, lease in enumerate(leases):
        line.settle(lease, 100 + number)
    assert sum(line.used("a").tokens.pieces) == sum(100 + number for number in range(20))
    assert line.used("a").used == 0


def test_what_comes_back_is_never_more_than_was_taken(line: Line) -> None:
    line.accounts = {"a": Account(name="a", tokens_per_minute=10**6, requests_per_minute=100)}
    line.submit("j", prompt=1_000, cap=1_000)
    (lease,) = line.ask().leases
    for _ in range(3):
        line.settle(lease, None, back=True)
    used = line.used("a")
    assert (used.used, sum(used.tokens.pieces), sum(used.requests.pieces)) == (0, 0, 0)


def test_one_that_needs_no_limit_runs_while_a_thousand_wait(line: Line) -> None:
    line.accounts = {"a": Account(name="a", families=(Family(models="big", streams=1),))}
    line.submit(*(f"big{number}" for number in range(1_000)), model="big", tenant="x")
    line.submit("free", model="small", tenant="y")
    assert "free" in line.grant()


def test_a_grant_costs_no_more_with_ten_times_as_many_waiting(line: Line, store: Store) -> None:
    """Commands, not time: nothing may look at the whole line."""
    if store.fake is not None:
        pytest.skip("the fake server counts no commands")
    counts = []
    for jobs in (50, 500):
        line.client.flushall()
        line.submit(*(f"j{number}" for number in range(jobs)))
        line.ask(slots=1)
        line.client.config_resetstat()
        line.ask(slots=2)
        stats = line.client.info("commandstats")
        counts.append({name: row["calls"] for name, row in stats.items() if "config" not in name})
    assert counts[0] == counts[1]


def test_a_cancelled_job_at_the_head_spends_nothing(line: Line) -> None:
    line.accounts = {"a": Account(name="a", requests_per_minute=100)}
    line.submit("gone", "next")
    assert calls.run(line.client, calls.withdraw("p", "gone")) == b"waiting"
    assert line.grant() == ["next"]
    assert sum(line.used("a").requests.pieces) == 1


def test_a_cancel_at_the_instant_of_the_grant_reaches_whoever_has_the_job(line: Line) -> None:
    line.accounts = {"a": Account(name="a", streams=1)}
    line.submit("j", "next")
    (lease,) = line.ask().leases
    assert calls.run(line.client, calls.withdraw("p", "j")) == b"held"
    assert line.client.lrange(inbox_key("p", "w1"), 0, -1) == [b"cancel j"]
    line.settle(lease, None)
    assert line.grant() == ["next"], "its stream is free again"


def test_thirty_two_workers_at_once_lose_no_lease(line: Line) -> None:
    line.accounts = {"a": Account(name="a", streams=25)}
    line.submit(*(f"j{number}" for number in range(100)))
    held = {n: line.ask(f"w{n}", slots=1, handoff_ms=60_000).leases for n in range(32)}
    for worker, leases in held.items():
        streams = [calls.Held(lease, "a") for lease in leases]
        call = calls.renew("p", f"w{worker}", streams, slots=1, lease_ms=60_000, alive_ms=60_000)
        assert calls.beat(streams, calls.run(line.client, call)).lost == ()
    assert line.streams() == {"a": 25}


def test_a_word_that_wakes_workers_may_be_lost(line: Line) -> None:
    """The time to sleep is computed from what is stored; a wake-up only makes it shorter."""
    line.accounts = {"a": Account(name="a", requests_per_minute=600)}
    line.submit(*(f"j{number:02}" for number in range(40)))
    line.ask()
    line.client.delete(KEYS.nudge)
    answer = line.ask()
    assert answer.sleep_ms is not None
    assert answer.sleep_ms <= 200


def test_a_reset_of_next_week_is_kept_to(line: Line) -> None:
    line.submit("j")
    reset = (datetime.now(UTC) + timedelta(days=5)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    line.refuse(line.one(), 429, {"retry-after": reset})
    seconds, _ = line.client.time()
    rest = line.state(KEYS.rests, "model a m")
    assert rest["until"] / 1000 - seconds > 4.9 * 86_400


def test_only_what_is_bounded_is_kept_when_nothing_waits_or_runs(line: Line) -> None:
    line.accounts = {"a": Account(name="a", streams=3, requests_per_day=9, day_zone="rolling")}
    line.submit(*(f"j{number}" for number in range(3)))
    for lease in line.ask().leases:
        line.settle(lease, 5, ending="answered")
    line.ask()
    left = {name.decode() for name in line.client.scan_iter() if line.client.ttl(name) == -1}
    assert left <= lasting_keys(["p"])
    assert all(name.startswith("ls:{p}:") for name in left), "one shard holds all of a pool"
