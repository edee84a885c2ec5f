"""The lease keeper: what it learns with a heartbeat, and tells the streams."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from msgspec.structs import replace

from settings.model import Account, Pool, Settings, WorkerSettings
from tests.conftest import Store
from tests.contract.test_feeder import feeder
from tests.harness.lines import KEYS, POOL, Line
from tests.harness.waiting import wait_until
from worker.admission.line import Held, Lease
from worker.attempt.work import Stop
from worker.steps.keeper import Keeper
from worker.store.keys import job_keys, pool_keys


@dataclass
class Streams:
    """An engine, as far as the keeper knows it."""

    settings: Settings
    leases: list[Lease] = field(default_factory=list)
    told: list[tuple[str, Stop]] = field(default_factory=list)
    draining: bool = False
    worker: str = "w1"

    turns: bool = True

    def held(self) -> list[Held]:
        return [Held(lease, "a") for lease in self.leases]

    def stop(self, job_id: str, why: Stop) -> None:
        self.told.append((job_id, why))


def keeper(engine: Any) -> Keeper:
    return Keeper(engine, lambda _: None, lambda _: None)


def test_a_cancel_that_the_store_lost_with_the_lease_still_reaches_the_stream(
    store: Store,
) -> None:
    """The record, in another place, may have been kept."""
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit("kept", "cancelled")
    engine = Streams(line.settings, list(line.ask().leases))
    keeping = keeper(engine)
    keeping._beat(store.sync)
    store.sync.delete(*KEYS.all())
    store.sync.hset(job_keys("kept").record, "state", "running")
    store.sync.hset(job_keys("cancelled").record, "cancel_ms", 1)
    keeping._beat(store.sync)
    assert engine.told == [("cancelled", Stop.CANCEL)]
    assert store.sync.hlen(KEYS.held) == 2


@pytest.mark.parametrize("first", ["keeper", "feeder"])
def test_whichever_is_back_first_leaves_the_owners_time_to_renew(store: Store, first: str) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    settings = replace(line.settings, worker=WorkerSettings(lease_s=0.03, renew_s=0.01))
    engine = Streams(settings)
    feeding = feeder(settings)
    back: Callable[[redis.Redis], object]
    back = keeper(engine)._beat if first == "keeper" else feeding._ask
    back(store.sync)
    line.submit("j")
    line.ask("owner", handoff_ms=1)
    time.sleep(0.05)  # what is tested is that nobody called for this time
    back(store.sync)
    assert line.ask("w3").reclaimed == ()
    assert store.sync.hget(KEYS.load, "owner") == b"1"


def test_a_pool_whose_keys_are_spoiled_costs_the_others_nothing(store: Store) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    spoiled = Pool(name="a spoiled one", keys=line.pool.keys)
    settings = replace(line.settings, pools={spoiled.name: spoiled, POOL: line.pool})
    store.sync.set(pool_keys(spoiled.name).leases, "no set")
    line.submit("j")
    handed: list[str] = []
    feeding = feeder(settings, publish=lambda _, lease: handed.append(lease.job_id))
    with pytest.raises(redis.ResponseError):
        feeding._ask(store.sync)
    assert handed == ["j"]

    stored: Any = store.sync.hget(KEYS.held, "j")
    lease = Lease("j", POOL, json.loads(stored)["lease"], "a")
    store.sync.zadd(KEYS.leases, {"j": 1})
    with pytest.raises(redis.ResponseError):
        keeper(Streams(settings, [lease]))._beat(store.sync)
    assert float(store.sync.zscore(KEYS.leases, "j") or 0) > 1


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_the_line_hears_at_once_of_a_worker_that_shuts_down(store: Store) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    slow = WorkerSettings(lease_s=600, renew_s=250, concurrency=7)
    engine = Streams(replace(line.settings, redis_url=store.url, worker=slow))
    keeping = keeper(engine)
    keeping.start()
    wait_until("it has beaten", lambda: store.sync.hget(KEYS.slots, "w1") == b"7")
    engine.draining = True
    keeping.rouse()
    wait_until("the line has heard", lambda: store.sync.hget(KEYS.slots, "w1") == b"0")
    keeping.close()
