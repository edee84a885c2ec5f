"""Any order of events leaves every job in exactly one place, and every slot with whoever has it.

Workers ask, start, renew, settle, die and come back; replies of grants are lost, calls are
repeated, jobs are cancelled, and the server's clock goes on, jumps and is set back. In the end
everybody lives again, and every job is done.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from settings.model import Account
from tests.conftest import Store
from tests.harness.lines import KEYS, POOL, Line
from worker.admission import line as calls
from worker.admission.line import Held, Lease, Patience, Spent
from worker.log.entries import Tokens

#: More than any of them ever has to wait for.
_ROUNDS = 400
STREAMS = 3
CLASSES = ("urgent", "normal", "bulk")


@dataclass
class Worker:
    """`has`: what it knows that it was granted; `begun`: what of it runs."""

    name: str
    lives: bool = True
    epoch: str = ""
    has: dict[str, Lease] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)

    def drop(self, job: str) -> Lease:
        self.begun.discard(job)
        return self.has.pop(job)


class Fleet:
    """Three workers on one line."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        accounts = {
            "a": Account(name="a", streams=STREAMS, requests_per_minute=600),
            "b": Account(name="b", tokens_per_minute=100_000),
        }
        self.line = Line(store.sync, accounts, patience=Patience(9_000, 6_000))
        self.workers = [Worker(f"w{number}") for number in range(3)]
        self.jobs: list[str] = []
        self.done: set[str] = set()

    def step(self) -> None:
        steps = [self.submit, self.submit, self.withdraw, self.die]
        steps += [self.ask] * 3 + [self.start] * 2 + [self.settle] * 2 + [self.beat] * 2
        worker = self.chance.choice(self.workers)
        self.chance.choice(steps)(worker)

    def submit(self, _: Worker) -> None:
        self.jobs.append(f"j{len(self.jobs)}")
        self.line.submit(
            self.jobs[-1],
            wait_ms=self.chance.choice([0, 0, 5_000]),
            tenant=self.chance.choice("xy"),
            priority=self.chance.choice(CLASSES),
        )

    def withdraw(self, _: Worker) -> None:
        if self.jobs:
            job = self.chance.choice(self.jobs)
            if calls.run(self.store.sync, calls.withdraw(POOL, job)) == b"waiting":
                self.done.add(job)

    def die(self, worker: Worker) -> None:
        if self.chance.random() < 0.3:
            worker.lives = not worker.lives
            worker.has, worker.begun = {}, set()

    def ask(self, worker: Worker, lost: float = 0.1) -> None:
        if not worker.lives:
            return
        call = calls.grant(
            self.line.pool,
            self.line.accounts,
            worker.name,
            slots=4,
            elsewhere=0,
            handoff_ms=10_000,
            alive_ms=15_000,
            epoch=worker.epoch,
            patience=self.line.patience,
        )
        answer = calls.granted(POOL, calls.run(self.store.sync, call))
        if self.chance.random() < lost:
            return
        worker.epoch = answer.epoch
        worker.has |= {lease.job_id: lease for lease in answer.leases}
        for gone in answer.gone:
            self.store.sync.zrem(KEYS.workers, gone)
            self.store.sync.hdel(KEYS.slots, gone)

    def start(self, worker: Worker) -> None:
        for job, lease in list(worker.has.items())[:1]:
            run = f"{worker.name} {lease.number}"
            call = calls.start(lease, worker.name, run, lease_ms=15_000)
            if calls.run(self.store.sync, call):
                worker.begun.add(job)
            else:
                worker.drop(job)

    def settle(self, worker: Worker) -> None:
        for job in sorted(worker.begun)[:1]:
            back, lease = self.chance.random() < 0.4, worker.drop(job)
            ending: Any = self.chance.choice(["answered", "refused", ""])
            spent = Spent(Tokens(input=1, output=self.chance.randint(0, 50)), ending)
            call = calls.settle(lease, back=back, wait_ms=3_000 * back, spent=spent)
            if calls.run(self.store.sync, call) and not back:
                self.done.add(job)
            assert not calls.run(self.store.sync, call), "settled twice"

    def beat(self, worker: Worker) -> None:
        if not worker.lives:
            return
        held = [Held(worker.has[job], worker.has[job].key) for job in sorted(worker.begun)]
        call = calls.renew(
            POOL,
            worker.name,
            held,
            slots=self.chance.choice([4, 4, 4, 0]),
            lease_ms=15_000,
            alive_ms=15_000,
            epoch=worker.epoch,
            patience=self.line.patience,
        )
        beat = calls.beat(held, calls.run(self.store.sync, call))
        worker.epoch = beat.epoch
        for lease in beat.lost:
            worker.drop(lease.job_id)

    def check(self) -> None:
        store = self.store.sync
        stored: Any = store.hgetall(KEYS.held)
        held = {job.decode(): json.loads(lease) for job, lease in stored.items()}
        sets = [getattr(KEYS, name) for name in (*CLASSES, "delayed")]
        waiting = [job.decode() for name in sets for job in store.zrange(name, 0, -1)]
        assert Counter([*waiting, *held]) == Counter(set(self.jobs) - self.done)
        assert {job.decode() for job in store.zrange(KEYS.leases, 0, -1)} == set(held)
        loads: Any = store.hgetall(KEYS.load)
        counted = {worker.decode(): int(count) for worker, count in loads.items()}
        assert counted == Counter(lease["worker"] for lease in held.values())
        streams = self.line.streams()
        assert streams == Counter(lease["account"] for lease in held.values())
        assert streams.get("a", 0) <= STREAMS

    def finish(self) -> None:
        """Nobody dies any more, and nothing is lost."""
        for worker in self.workers:
            worker.lives, worker.has, worker.begun = True, {}, set()
        for worker in self.workers:
            self.beat(worker)
            self.ask(worker, lost=0)
            for job, lease in list(worker.has.items()):
                call = calls.start(lease, worker.name, str(lease.number), lease_ms=15_000)
                begun = calls.run(self.store.sync, call)
                if begun and self.line.settle(worker.drop(job)):
                    self.done.add(job)


@pytest.mark.parametrize("store", ["fakeredis"], indirect=True)
@pytest.mark.parametrize("seed", range(3))
def test_every_job_is_in_one_place_and_is_done_in_the_end(
    store: Store, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, real, off = random.Random(seed), time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + off[0])
    fleet = Fleet(store, chance)
    for _ in range(80):
        fleet.step()
        off[0] += chance.choice([0, 0, 0.05, 1, 4, 20, -2, -30, -3600])
        fleet.check()
    for _ in range(_ROUNDS):
        fleet.finish()
        off[0] += 3
        if len(fleet.done) == len(fleet.jobs):
            break
    fleet.check()
    assert len(fleet.done) == len(fleet.jobs)
    left = (KEYS.held, KEYS.leases, KEYS.load, KEYS.tickets)
    assert not store.sync.exists(*left)
