"""The waiting line and its leases on a real and on a fake store."""

from __future__ import annotations

from typing import Any

import pytest

from settings.model import Account, Key, Pool
from settings.secret import Secret
from tests.conftest import Store
from tests.harness.waiting import wait_until
from worker.admission import line
from worker.admission.line import Granted, Held, Lease, Patience
from worker.admission.states import scope_state
from worker.store.keys import inbox_key, pool_keys

KEYS = pool_keys("p")


def key(alias: str, account: str) -> Key:
    return Key(
        alias=alias,
        provider="generic",
        base_url="http://127.0.0.1:1/v1",
        secret=Secret("s"),
        account=account,
    )


POOL = Pool(name="p", keys=(key("k1", "a1"), key("k2", "a2")))
ACCOUNTS = {"a1": Account(name="a1", streams=2), "a2": Account(name="a2")}


def ask(
    store: Store,
    worker: str = "w1",
    *,
    slots: int = 10,
    handoff_ms: int = 60_000,
    pool: Pool = POOL,
    epoch: str = "",
    patience: Patience = line.IMPATIENT,
) -> Granted:
    call = line.grant(
        pool,
        ACCOUNTS,
        worker,
        slots=slots,
        elsewhere=0,
        handoff_ms=handoff_ms,
        alive_ms=60_000,
        epoch=epoch,
        patience=patience,
    )
    return line.granted("p", line.run(store.sync, call))


def submit(store: Store, *jobs: str) -> None:
    for job in jobs:
        line.run(store.sync, line.enqueue("p", job))


def jobs_of(granted: Granted) -> list[str]:
    return [lease.job_id for lease in granted.leases]


def start(store: Store, lease: Lease, run: str = "r1", *, worker: str = "w1") -> bool:
    return bool(line.run(store.sync, line.start(lease, worker, run, lease_ms=60_000)))


def settle(store: Store, lease: Lease, *, back: bool = False, wait_ms: int = 0) -> bool:
    return bool(line.run(store.sync, line.settle(lease, back=back, wait_ms=wait_ms)))


def nothing_held(store: Store) -> bool:
    names = (KEYS.leases, KEYS.held, KEYS.load, KEYS.tickets)
    scopes: Any = store.sync.hvals(KEYS.buckets)
    streams = sum(scope_state(stored).used for stored in scopes)
    return not streams and not any(store.sync.exists(name) for name in names)


def test_jobs_are_granted_in_the_order_they_came(store: Store) -> None:
    submit(store, "a", "b", "c")
    assert jobs_of(ask(store)) == ["a", "b", "c"]


def test_a_job_submitted_twice_stands_in_the_line_once(store: Store) -> None:
    submit(store, "a", "a")
    assert jobs_of(ask(store)) == ["a"]
    submit(store, "a")
    assert jobs_of(ask(store)) == []


def test_a_worker_gets_no_more_than_its_free_slots(store: Store) -> None:
    submit(store, "a", "b", "c")
    assert jobs_of(ask(store, slots=2)) == ["a", "b"]
    assert jobs_of(ask(store, slots=2)) == []
    assert jobs_of(ask(store, "w2", slots=2)) == ["c"]


def test_streams_spread_over_accounts_and_stop_at_their_limit(store: Store) -> None:
    submit(store, "a", "b", "c", "d", "e")
    granted = [lease.key for lease in ask(store).leases]
    assert sorted(granted[:2]) == sorted(granted[2:4]) == ["k1", "k2"]
    assert granted[4] == "k2"
    only = Pool(name="p", keys=(key("k1", "a1"),))
    submit(store, "f")
    assert jobs_of(ask(store, pool=only)) == []
    assert store.sync.zcard(KEYS.normal) == 1


def test_only_the_first_message_of_a_grant_starts(store: Store) -> None:
    submit(store, "a")
    (lease,) = ask(store).leases
    assert start(store, lease, "r1")
    assert not start(store, lease, "r2")
    assert start(store, lease, "r1"), "the same run again is a repeated call"


def test_a_message_of_a_lease_that_is_gone_does_not_start(store: Store) -> None:
    submit(store, "a")
    (lease,) = ask(store).leases
    settle(store, lease)
    assert not start(store, lease)


def test_settling_is_done_once_and_frees_everything(store: Store) -> None:
    submit(store, "a")
    (lease,) = ask(store).leases
    assert settle(store, lease)
    assert not settle(store, lease)
    assert nothing_held(store)


def test_settling_wakes_one_worker_and_its_own_when_that_was_full(store: Store) -> None:
    submit(store, "a", "b", "c")
    first, second = ask(store, slots=2).leases
    store.sync.delete(KEYS.nudge)
    settle(store, first)
    assert store.sync.lrange(inbox_key("p", "w1"), 0, -1) == [b"slot"]
    assert not store.sync.exists(KEYS.nudge)
    settle(store, second)
    assert store.sync.llen(inbox_key("p", "w1")) == store.sync.llen(KEYS.nudge) == 1


def test_settling_on_a_worker_that_shuts_down_wakes_another(store: Store) -> None:
    submit(store, "a", "b")
    (lease,) = ask(store, slots=1).leases
    start(store, lease)
    line.run(store.sync, line.renew("p", "w1", [], slots=0, lease_ms=1000, alive_ms=1000))
    store.sync.delete(KEYS.nudge)
    settle(store, lease)
    assert store.sync.llen(KEYS.nudge) == 1


def test_a_job_given_back_by_a_full_worker_wakes_another_one(store: Store) -> None:
    """It may be shutting down, and the line not have heard of that yet."""
    submit(store, "a")
    (lease,) = ask(store, slots=1).leases
    store.sync.delete(KEYS.nudge)
    settle(store, lease, back=True)
    assert store.sync.llen(KEYS.nudge) == 1


def test_a_job_put_back_keeps_its_place(store: Store) -> None:
    submit(store, "a", "b", "c")
    first, _ = ask(store, slots=2).leases
    settle(store, first, back=True)
    assert jobs_of(ask(store, "w2")) == ["a", "c"]


def test_a_job_put_back_with_a_delay_waits_for_it(store: Store) -> None:
    submit(store, "a")
    (lease,) = ask(store).leases
    settle(store, lease, back=True, wait_ms=300)
    answer = ask(store)
    assert jobs_of(answer) == []
    assert answer.sleep_ms is not None
    assert 0 < answer.sleep_ms <= 301
    wait_until("the delay passes", lambda: jobs_of(ask(store)) == ["a"])


def test_an_expired_lease_puts_the_job_back_and_frees_the_slot(store: Store) -> None:
    submit(store, "a", "b")
    ask(store, "dead", slots=1, handoff_ms=1)
    answer = wait_until("reclaimed", lambda: (g := ask(store, "w2")) and g.reclaimed and g)
    assert answer.reclaimed == (("a", "dead"),)
    assert store.sync.hget(KEYS.load, "dead") is None


def test_what_a_dead_worker_had_not_begun_comes_back_before_its_hand_off_is_over(
    store: Store,
) -> None:
    submit(store, "begun", "not begun")
    begun, _ = ask(store, "dead").leases
    start(store, begun, worker="dead")
    beat(store, "dead", [], "", line.IMPATIENT)
    answer = wait_until("it comes back", lambda: (g := ask(store, "w2")) and g.reclaimed and g)
    assert answer.reclaimed == (("not begun", "dead"),)
    assert jobs_of(answer) == ["not begun"]
    assert store.sync.hget(KEYS.load, "dead") == b"1"


@pytest.mark.parametrize("slots", [0, 1])
def test_what_a_worker_finds_and_has_no_slot_for_wakes_another(store: Store, slots: int) -> None:
    """One that sleeps would not find it: no lease expires any more."""
    submit(store, "a", "b")
    ask(store, "dead", handoff_ms=1)
    store.sync.delete(KEYS.nudge)
    wait_until("reclaimed", lambda: ask(store, "full", slots=slots).reclaimed)
    assert store.sync.llen(KEYS.nudge) == 1
    assert len(ask(store, "w2").leases) == 2 - slots


def test_a_worker_that_shuts_down_gives_back_at_once_what_it_has_not_begun(store: Store) -> None:
    submit(store, "begun", "beginning", "not begun")
    begun, beginning, _ = ask(store, "w1").leases
    start(store, begun)
    store.sync.delete(KEYS.nudge)
    held = [Held(begun), Held(beginning)]
    call = line.renew("p", "w1", held, slots=0, lease_ms=60_000, alive_ms=60_000)
    assert line.beat(held, line.run(store.sync, call)).lost == ()
    assert store.sync.llen(KEYS.nudge) == 1
    assert jobs_of(ask(store, "w2")) == ["not begun"]
    assert store.sync.hget(KEYS.load, "w1") == b"2"


def test_sleepers_are_up_when_a_worker_with_leases_may_be_dead(store: Store) -> None:
    submit(store, "a")
    ask(store, "w1", handoff_ms=600_000)
    call = line.renew("p", "w1", [], slots=1, lease_ms=1000, alive_ms=5_000)
    line.run(store.sync, call)
    sleep_ms = ask(store, "w2").sleep_ms
    assert sleep_ms is not None
    assert sleep_ms <= 5_001
    call = line.renew("p", "w2", [], slots=1, lease_ms=1000, alive_ms=60_000)
    expiry_ms = line.beat([], line.run(store.sync, call)).expiry_ms
    assert expiry_ms is not None
    assert expiry_ms <= 5_001


def test_a_reclaimed_lease_can_neither_be_renewed_nor_settled(store: Store) -> None:
    submit(store, "a")
    (old,) = ask(store, "dead", handoff_ms=1).leases
    wait_until("reclaimed", lambda: ask(store, "w2").reclaimed)
    call = line.renew("p", "dead", [Held(old)], slots=1, lease_ms=1000, alive_ms=1000)
    assert line.beat([Held(old)], line.run(store.sync, call)).lost == (old,)
    assert not settle(store, old)
    assert store.sync.hget(KEYS.load, "w2") == b"1"


def test_a_renewed_lease_is_not_reclaimed(store: Store) -> None:
    submit(store, "a")
    (lease,) = ask(store, handoff_ms=200).leases
    start(store, lease)
    renewed = line.renew("p", "w1", [Held(lease)], slots=1, lease_ms=60_000, alive_ms=1)
    line.run(store.sync, renewed)
    wait_until("w1 is gone", lambda: "w1" in ask(store, "w2").gone)
    assert store.sync.zscore(KEYS.leases, "a") is not None


#: Nobody has called for long enough, as soon as the last call was a moment ago.
PATIENT = Patience(quiet_ms=1, grace_ms=60_000)


def beat(store: Store, worker: str, held: list[Held], epoch: str, patience: Patience) -> line.Beat:
    call = line.renew(
        "p", worker, held, slots=1, lease_ms=60_000, alive_ms=1, epoch=epoch, patience=patience
    )
    return line.beat(held, line.run(store.sync, call))


@pytest.mark.parametrize("first", ["grant", "beat"])
def test_who_comes_first_after_an_outage_reclaims_nothing(store: Store, first: str) -> None:
    """Nor does who comes second: the owners were cut off as well, and go on."""
    submit(store, "a")
    granted = ask(store, "w1", handoff_ms=1)
    (lease,) = granted.leases
    beat(store, "w1", [], granted.epoch, line.IMPATIENT)
    wait_until(
        "the lease is over", lambda: beat(store, "w3", [], "", line.IMPATIENT).expiry_ms == 0
    )
    wait_until("the store was quiet", lambda: quiet_for(store) > 2)
    if first == "beat":
        beat(store, "w2", [], granted.epoch, PATIENT)
    answer = ask(store, "w2", epoch=granted.epoch, patience=PATIENT)
    assert (answer.reclaimed, answer.gone) == ((), ())
    assert beat(store, "w1", [Held(lease)], granted.epoch, PATIENT).lost == ()


def test_a_worker_just_started_waits_for_no_owner(store: Store) -> None:
    """It may stand in the place of all that died."""
    submit(store, "a")
    ask(store, "dead", handoff_ms=1)
    wait_until("the store was quiet", lambda: quiet_for(store) > 2)
    assert ask(store, "w2", patience=PATIENT).reclaimed == (("a", "dead"),)


def test_a_lease_that_expires_while_others_call_is_reclaimed(store: Store) -> None:
    submit(store, "a")
    epoch = ask(store, "dead", handoff_ms=20).epoch
    patient = Patience(quiet_ms=10_000, grace_ms=60_000)

    def reclaimed() -> object:
        return ask(store, "w2", epoch=epoch, patience=patient).reclaimed

    wait_until("it is reclaimed", reclaimed)


def quiet_for(store: Store) -> float:
    seconds, micros = store.sync.time()
    return seconds * 1000 + micros / 1000 - float(store.sync.hget(KEYS.epoch, "seen") or 0)


def alive(store: Store, worker: str) -> bool:
    return store.sync.zscore(KEYS.workers, worker) is not None


def test_every_asker_is_told_of_a_worker_that_is_gone_until_it_is_forgotten(store: Store) -> None:
    line.run(store.sync, line.renew("p", "dead", [], slots=1, lease_ms=1000, alive_ms=1))
    answer = wait_until("gone", lambda: (g := ask(store, "w1")) and g.gone and g)
    assert answer.gone == ask(store, "w2").gone == ("dead",)
    store.sync.zrem(KEYS.workers, "dead")
    assert ask(store, "w2").gone == ()


def test_cancel_takes_a_waiting_job_out_of_the_line(store: Store) -> None:
    submit(store, "a")
    assert line.run(store.sync, line.withdraw("p", "a")) == b"waiting"
    assert jobs_of(ask(store)) == []
    assert line.run(store.sync, line.withdraw("p", "a")) == b"absent"


def test_cancel_of_a_running_job_reaches_its_worker_twice(store: Store) -> None:
    """At once through the inbox, and with the next heartbeat should that be lost."""
    submit(store, "a")
    (lease,) = ask(store).leases
    assert line.run(store.sync, line.withdraw("p", "a")) == b"held"
    assert store.sync.lrange(inbox_key("p", "w1"), 0, -1) == [b"cancel a"]
    call = line.renew("p", "w1", [Held(lease)], slots=1, lease_ms=1000, alive_ms=1000)
    assert line.beat([Held(lease)], line.run(store.sync, call)).cancelled == (lease,)


def test_submits_wake_sleepers_and_an_empty_line_forgets_the_rest(store: Store) -> None:
    submit(store, *(f"j{n}" for n in range(100)))
    assert store.sync.llen(KEYS.nudge) == 64
    ask(store, slots=1000)
    assert store.sync.llen(KEYS.nudge) == 0


@pytest.mark.parametrize("slots", [1, 3])
def test_sleep_is_until_woken_when_nothing_is_pending(store: Store, slots: int) -> None:
    assert ask(store, slots=slots).sleep_ms is None
