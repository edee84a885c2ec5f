"""Accounts and their limits, on a real and on a fake store."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from settings.model import Account, Family
from tests.conftest import Store
from tests.harness.lines import KEYS, Line, key
from tests.harness.waiting import wait_until
from worker.admission.buckets import CELLS, PIECES
from worker.admission.states import rolling_day


def account(name: str = "a", **limits: object) -> Account:
    return Account(name=name, **limits)  # type: ignore[arg-type]


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync)


def having(line: Line, *accounts: Account) -> Line:
    line.accounts = {each.name: each for each in accounts}
    return line


def jobs(count: int) -> list[str]:
    return [f"j{number:04}" for number in range(count)]


def test_requests_a_minute_hold_jobs_back_for_exactly_as_long_as_told(line: Line) -> None:
    having(line, account(requests_per_minute=400, burst=0.005))
    line.submit(*jobs(3))
    first = line.ask()
    assert len(first.leases) == 2
    assert first.sleep_ms is not None
    assert 100 < first.sleep_ms < 160
    assert wait_until("the next one fits", lambda: line.ask().leases)


def test_tokens_a_minute_hold_jobs_back(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000))
    line.submit(*jobs(3), prompt=2_400, cap=100)
    answer = line.ask()
    assert len(answer.leases) == 2
    assert answer.sleep_ms == pytest.approx(1578, rel=0.1)


def test_a_day_is_over_when_its_requests_are_used(line: Line) -> None:
    having(line, account(requests_per_day=2))
    line.submit(*jobs(3))
    answer = line.ask()
    assert len(answer.leases) == 2
    assert answer.sleep_ms is not None
    assert 0 < answer.sleep_ms <= 60_001, "not longer than the leases"
    assert line.used("a").today == 2


def test_the_day_begins_at_the_midnight_of_its_zone(line: Line) -> None:
    having(line, account(requests_per_day=9, day_zone="Pacific/Kiritimati"))
    line.submit("x")
    line.ask()
    ahead = line.used("a").day
    having(line, account("b", requests_per_day=9, day_zone="Pacific/Pago_Pago"))
    line.submit("y")
    line.ask()
    assert ahead - line.used("b").day in (1, 2)


def day_before(line: Line, pieces: int) -> None:
    """Let the requests of the rolling day have been that many pieces of it earlier."""
    stored: Any = line.client.hget(KEYS.buckets, "day a")
    window = rolling_day(stored)
    earlier = [0.0] * CELLS
    for piece in range(window.piece - PIECES, window.piece + 1):
        earlier[(piece - pieces) % CELLS] = window.pieces[piece % CELLS]
    numbers = [window.piece - pieces, sum(earlier), *earlier]
    line.client.hset(KEYS.buckets, "day a", struct.pack(f"<{2 + CELLS}d", *numbers))


def test_a_rolling_day_gives_back_what_is_a_day_old(line: Line) -> None:
    having(line, account(requests_per_day=2, day_zone="rolling"))
    line.submit(*jobs(6))
    assert len(line.ask().leases) == 2
    assert line.client.hlen(KEYS.tickets) == 6
    day_before(line, PIECES - 1)
    assert line.ask().leases == (), "not yet a whole day"
    day_before(line, 2)
    assert len(line.ask().leases) == 2


def test_a_rolling_day_says_when_it_has_room_again(line: Line) -> None:
    having(line, account(requests_per_day=1, day_zone="rolling"))
    line.submit(*jobs(2))
    line.ask()
    head = json.loads(line.client.get(KEYS.blocked) or b"")
    assert head["reason"] == "requests a day of account a"
    seconds, _ = line.client.time()
    hours = (head["until"] / 1000 - seconds) / 3600
    assert 24 <= hours <= 24 * CELLS / PIECES


def test_a_lease_that_never_started_gives_its_request_of_a_rolling_day_back(line: Line) -> None:
    having(line, account(requests_per_day=1, day_zone="rolling"))
    line.submit("j")
    (lease,) = line.ask().leases
    line.settle(lease, None, back=True)
    assert line.grant() == ["j"]


def test_keys_of_one_account_share_its_limits(line: Line) -> None:
    having(line, account(streams=3))
    line.keys = (key("k1", "a"), key("k2", "a"))
    line.submit(*jobs(5))
    granted = line.ask().leases
    assert len(granted) == 3
    assert {lease.key for lease in granted} == {"k1", "k2"}


def test_a_family_of_models_has_limits_of_its_own(line: Line) -> None:
    family = Family(models="big-*", streams=1)
    having(line, account(streams=3, families=(family,)))
    line.submit("a", "b", model="big-1")
    line.submit("c", "d", "e", model="small")
    assert line.grant() == ["a", "c", "d"]
    assert line.streams() == {"a": 3, "a/big-*": 1}


def test_the_key_with_most_headroom_is_taken(line: Line) -> None:
    having(line, account("small", streams=2), account("large", streams=8))
    line.submit(*jobs(10))
    granted = [lease.key for lease in line.ask().leases]
    assert granted.count("small") == 2
    assert granted.count("large") == 8
    assert granted[:6].count("large") in (4, 5), "in proportion, from the beginning"


def test_equal_keys_get_equal_shares(line: Line) -> None:
    having(line, *(account(name, tokens_per_minute=10**9) for name in "abcd"))
    line.submit(*jobs(200))
    granted = [lease.key for lease in line.ask().leases]
    assert {granted.count(name) for name in "abcd"} == {50}


def tat(line: Line, dimension: str = "tokens") -> float:
    used = line.used("a")
    return used.tokens_tat if dimension == "tokens" else used.requests_tat


def test_what_was_reserved_and_not_used_comes_back(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000, burst=0.1))
    line.submit("j", prompt=4_000, cap=5_000)
    lease = line.one()
    reserved = tat(line)
    line.settle(lease, 600, ending="answered")
    assert reserved - tat(line) == pytest.approx(63_000 / 100_000 * (6_000 - 600), rel=1e-6)


def test_settling_twice_gives_back_once(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000))
    line.submit("j", prompt=3_000)
    lease = line.one()
    assert line.settle(lease, 0)
    once = tat(line)
    assert not line.settle(lease, 0)
    assert tat(line) == once


def test_more_than_was_reserved_is_a_debt(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000))
    line.submit("j", prompt=1_000, cap=1_000)
    lease = line.one()
    reserved = tat(line)
    line.settle(lease, 50_000)
    assert tat(line) - reserved > 25_000


def test_usage_that_is_not_known_keeps_the_estimate(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000))
    line.submit("j", prompt=1_000)
    lease = line.one()
    reserved = tat(line)
    line.settle(lease, None)
    assert tat(line) == reserved


def test_a_lease_that_never_started_gives_everything_back(line: Line) -> None:
    limits = {"requests_per_minute": 600, "tokens_per_minute": 100_000, "requests_per_day": 5}
    having(line, account(**limits))
    line.submit("j", prompt=1_000)
    (lease,) = line.ask().leases
    before = tat(line), tat(line, "requests")
    line.settle(lease, None, back=True)
    assert tat(line) < before[0] - 1_000
    assert before[1] - tat(line, "requests") > 99
    assert line.used("a").today == 0


def test_a_provider_that_counts_at_admission_gives_nothing_back(line: Line) -> None:
    having(line, account(tokens_per_minute=100_000, accounting="admission"))
    line.submit("j", prompt=100, cap=3_000)
    lease = line.one()
    assert line.state(KEYS.held, "j")["tokens"] == 3_100, "the cap, not what is usual"
    reserved = tat(line)
    line.settle(lease, 200, ending="answered")
    assert tat(line) == reserved


def test_a_provider_that_counts_what_is_produced_is_followed(line: Line) -> None:
    from worker.admission import line as calls
    from worker.admission.line import Held

    having(line, account(tokens_per_minute=100_000, accounting="produced"))
    line.submit("j", prompt=100, cap=9_000)
    lease = line.one()
    assert line.state(KEYS.held, "j")["tokens"] == 100
    ms_a_token = 63_000 / 100_000

    def produce(tokens: int) -> float:
        held = [Held(lease, "a", tokens)]
        before = tat(line)
        call = calls.renew("p", "w1", held, slots=1, lease_ms=60_000, alive_ms=60_000)
        calls.run(line.client, call)
        return tat(line) - before

    assert produce(3_000) >= 3_000 * ms_a_token - 1
    assert produce(3_000) == 0, "the same number again is nothing new"
    assert produce(3_500) == pytest.approx(500 * ms_a_token, rel=1e-3)
    before = tat(line)
    line.settle(lease, 4_100, ending="answered")
    assert tat(line) - before == pytest.approx(500 * ms_a_token, rel=1e-3)


def test_the_size_of_answers_is_learned_by_kind(line: Line) -> None:
    having(line, account(tokens_per_minute=10**9))
    for number in range(20):
        line.submit(f"j{number}", kind="short", prompt=100)
        line.settle(line.one(), 50, ending="answered")
    line.submit("next", kind="short", prompt=100)
    line.submit("other", kind="long", prompt=100)
    line.ask()
    assert line.state(KEYS.held, "next")["tokens"] < 100 + 80
    assert line.state(KEYS.held, "other")["tokens"] == 2_100


def test_a_refusal_teaches_nothing_about_the_size_of_answers(line: Line) -> None:
    having(line, account(tokens_per_minute=10**9))
    line.submit("j")
    line.settle(line.one(), 0, back=True, ending="refused")
    assert not line.client.exists(KEYS.sizes)


def test_a_job_larger_than_the_burst_is_granted_and_the_next_waits(line: Line) -> None:
    having(line, account(tokens_per_minute=10_000))
    line.submit("large", "next", prompt=6_000, cap=1)
    assert line.grant() == ["large"]


def test_a_limit_that_is_raised_holds_from_the_next_grant_on(line: Line) -> None:
    having(line, account(streams=1))
    line.submit("a", "b")
    assert line.grant() == ["a"]
    having(line, account(streams=2))
    assert line.grant() == ["b"]


def test_a_thousand_refusals_change_nothing(line: Line) -> None:
    having(line, account(streams=1, tokens_per_minute=10**6))
    line.submit("a", "b")
    line.ask()
    before = line.client.hgetall(KEYS.buckets)
    for _ in range(100):
        assert not line.ask().leases
    assert (line.client.hgetall(KEYS.buckets)) == before


def test_of_many_sleepers_one_wakes_up_first(line: Line) -> None:
    having(line, account(requests_per_minute=60))
    line.submit(*jobs(5))
    times = [line.ask(f"w{number}").sleep_ms or 0 for number in range(4)]
    assert max(times[1:]) - times[0] > 200
    assert line.ask("w0").sleep_ms == pytest.approx(times[0], abs=100)
