"""Whose turn it is: tenants, classes, and jobs that do not fit, on a real and on a fake store."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from settings.model import Account
from tests.conftest import Store
from tests.harness.lines import KEYS, Line, key
from worker.admission import line as calls


@pytest.fixture
def line(store: Store) -> Line:
    """One account with room for everything."""
    return Line(store.sync, {"a": Account(name="a")})


def of(line: Line, tenant: str, count: int, **ticket: object) -> None:
    line.submit(*(f"{tenant}-{n:03}" for n in range(count)), tenant=tenant, **ticket)


def tenants(jobs: list[str]) -> Counter[str]:
    return Counter(job.partition("-")[0] for job in jobs)


def test_a_tenant_with_most_of_the_jobs_gets_no_more_than_its_share(line: Line) -> None:
    of(line, "big", 140)
    for name in ("x", "y", "z"):
        of(line, name, 40)
    assert set(tenants(line.grant(slots=100)).values()) == {25}


def test_a_single_job_of_a_new_tenant_is_served_within_one_round(line: Line) -> None:
    of(line, "big", 50)
    line.grant(slots=20)
    of(line, "new", 1)
    assert "new-000" in [lease.job_id for lease in line.ask("w2", slots=2).leases]


def test_shares_are_counted_in_tokens_not_in_jobs(line: Line) -> None:
    of(line, "large", 50, prompt=9_000, cap=1_000)
    of(line, "small", 200, prompt=900, cap=100)
    granted = tenants(line.grant(slots=110))
    assert granted["small"] == pytest.approx(10 * granted["large"], abs=10)


def test_a_tenant_of_twice_the_weight_gets_twice_the_share(line: Line) -> None:
    of(line, "paying", 100, weight=2.0)
    of(line, "x", 100)
    of(line, "y", 100)
    granted = tenants(line.grant(slots=80))
    assert (granted["paying"], granted["x"], granted["y"]) == (
        pytest.approx(40, abs=1),
        pytest.approx(20, abs=1),
        pytest.approx(20, abs=1),
    )


def test_a_weight_holds_for_what_answers_really_took(line: Line) -> None:
    of(line, "paying", 60, weight=2.0, prompt=100, cap=100)
    of(line, "x", 60, prompt=100, cap=100)
    taken: Counter[str] = Counter()
    for _ in range(12):
        for lease in line.ask(slots=5).leases:
            line.settle(lease, 150, ending="answered")
            taken[lease.job_id.partition("-")[0]] += 150
    assert taken["paying"] == pytest.approx(2 * taken["x"], rel=0.1)


def test_time_a_tenant_was_idle_is_not_saved_up(line: Line) -> None:
    of(line, "busy", 100)
    line.grant(slots=60)
    of(line, "idle", 100)
    later = tenants([lease.job_id for lease in line.ask("w2", slots=20).leases])
    assert later == {"busy": 10, "idle": 10}


def test_a_tenant_pays_for_what_its_answers_really_took(line: Line) -> None:
    of(line, "wordy", 100, prompt=100, cap=100)
    of(line, "terse", 100, prompt=100, cap=100)
    for lease in line.ask(slots=20).leases:
        line.settle(lease, 2_000 if lease.job_id.startswith("wordy") else 200, ending="answered")
    of(line, "wordy", 1, prompt=100)
    line.submit("wordy-late", tenant="wordy", prompt=100, cap=100)
    line.submit("terse-late", tenant="terse", prompt=100, cap=100)
    turns = {job: line.state(KEYS.tickets, job)["turn"] for job in ("wordy-late", "terse-late")}
    assert turns["wordy-late"] - turns["terse-late"] > 15_000


@pytest.mark.parametrize("together", [True, False])
def test_classes_share_by_weight_and_bulk_never_starves(line: Line, together: bool) -> None:
    for name in ("urgent", "normal", "bulk"):
        of(line, name, 200, priority=name)
    granted: Counter[str] = Counter()
    for _ in range(1 if together else 100):
        granted += tenants(line.grant(slots=sum(granted.values()) + (100 if together else 1)))
    assert granted == Counter(urgent=70, normal=25, bulk=5)


def test_an_urgent_job_is_next_among_many_others(line: Line) -> None:
    of(line, "bulk", 100, priority="bulk")
    of(line, "normal", 100)
    line.grant(slots=50)
    of(line, "now", 1, priority="urgent")
    assert "now-000" in [lease.job_id for lease in line.ask("w2", slots=1).leases]


def test_a_class_alone_gets_everything(line: Line) -> None:
    of(line, "bulk", 30, priority="bulk")
    assert len(line.grant()) == 30


def test_a_large_job_at_the_head_is_not_overtaken_by_small_ones(line: Line) -> None:
    line.accounts = {"a": Account(name="a", tokens_per_minute=100_000)}
    line.submit("large", prompt=4_000, cap=500)
    line.submit("first", tenant="x", prompt=3_000, cap=500)
    assert line.grant() == ["large"]
    line.submit("small", tenant="y", prompt=10, cap=10)
    assert line.grant() == [], "room for the small one is the first one's"


def test_a_large_job_holds_back_no_more_than_the_account_it_waits_for(line: Line) -> None:
    line.accounts = {
        "a": Account(name="a", tokens_per_minute=100_000),
        "b": Account(name="b", tokens_per_minute=50_000),
    }
    line.submit("one", "two", prompt=4_900, cap=1)
    line.grant()
    line.submit("large", prompt=4_900, cap=1)
    line.submit("small", tenant="y", prompt=10, cap=10)
    granted = line.ask().leases
    assert {lease.job_id for lease in granted} <= {"small"}


def test_a_job_that_waits_for_its_model_lets_others_pass(line: Line) -> None:
    from settings.model import Family

    family = Family(models="big", streams=1)
    line.accounts = {"a": Account(name="a", families=(family,))}
    line.submit("b1", "b2", model="big")
    line.submit("s1", model="small")
    assert line.grant() == ["b1", "s1"]


def test_a_sticky_job_goes_to_its_key_or_waits(line: Line) -> None:
    line.accounts = {name: Account(name=name, streams=1) for name in ("a", "b")}
    line.submit("j1", "j2", sticky="b")
    assert [(lease.job_id, lease.key) for lease in line.ask().leases] == [("j1", "b")]
    line.submit("other")
    (other,) = line.ask().leases
    assert (other.job_id, other.key) == ("other", "a")


def test_a_job_put_back_may_be_bound_to_a_key(line: Line) -> None:
    line.accounts = {name: Account(name=name) for name in "abcd"}
    line.submit("j")
    line.settle(line.one(), back=True, sticky="c")
    assert [lease.key for lease in line.ask().leases] == ["c"]


def test_a_key_that_is_gone_binds_nobody(line: Line) -> None:
    line.submit("j", sticky="removed")
    assert line.grant() == ["j"]


def test_a_job_sent_back_keeps_its_turn(line: Line) -> None:
    line.submit("first", "second", "third")
    (lease,) = line.ask(slots=1).leases
    line.settle(lease, back=True)
    assert line.grant() == ["first", "second", "third"]


def test_no_job_is_ever_lost_whatever_happens(line: Line) -> None:
    """Submits, grants, settles, returns and cancels in any order keep every job in one place."""
    line.accounts = {"a": Account(name="a", streams=5), "b": Account(name="b", streams=2)}
    line.keys = (key("k1", "a"), key("k2", "b"))
    chance, held, waiting, done = random.Random(7), {}, set(), set()
    for step in range(400):
        action = chance.choice(["submit", "grant", "settle", "back", "cancel"])
        if action == "submit":
            waiting.add(f"j{step}")
            line.submit(f"j{step}", tenant=chance.choice("xyz"), prompt=chance.randint(1, 99))
        elif action == "grant":
            for lease in line.ask(slots=4).leases:
                waiting.remove(lease.job_id)
                held[lease.job_id] = lease
        elif action == "cancel" and waiting:
            job = chance.choice(sorted(waiting))
            assert calls.run(line.client, calls.withdraw("p", job)) == b"waiting"
            waiting.remove(job)
        elif held and action != "cancel":
            lease = held.pop(chance.choice(sorted(held)))
            assert line.settle(lease, 5, back=action == "back")
            (waiting if action == "back" else done).add(lease.job_id)
        assert line.client.zcard(KEYS.normal) == len(waiting)
        assert line.client.hlen(KEYS.tickets) == len(waiting) + len(held)
        assert line.client.zcard(KEYS.leases) == line.client.hlen(KEYS.held) == len(held)
        counted = sum(line.streams().values())
        assert counted == len(held) <= 4
