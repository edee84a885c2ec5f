"""Real workers against a simulator that enforces limits and judges what it saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.celery_app import client_of
from tests.harness.cluster import Cluster, read
from tests.harness.waiting import wait_until
from worker.admission import line
from worker.admission.line import Lease
from worker.messages.publish import publish
from worker.store.keys import direct_queue, job_keys, pool_keys

KEYS = """
[[pools.simulator.keys]]
alias = "one"
provider = "simulator"
base_url = "{base}"
secret = "sk-one"

[[pools.simulator.keys]]
alias = "two"
provider = "simulator"
base_url = "{base}"
secret = "sk-two"
"""

Start = Callable[..., Cluster]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A cluster whose accounts `one` and `two` have true limits and configured ones."""
    running: list[Cluster] = []

    def begin(true: dict[str, int], configured: str, window_s: float = 60, **more: Any) -> Cluster:
        accounts = {name: {"secrets": [f"sk-{name}"], **true} for name in ("one", "two")}
        limits = {"window_s": window_s, "accounts": accounts}
        running.append(Cluster(tmp_path, limits=limits, **more))
        tables = (f"[accounts.{name}]\n{configured}\n" for name in accounts)
        running[0].configure("\n".join(tables) + KEYS)
        return running[0]

    yield begin
    for cluster in running:
        cluster.close()


def finish(cluster: Cluster, count: int, model: str = "sim:plain") -> list[dict[str, str]]:
    """Submit so many, follow them to their ends, and give their records."""
    ids = [cluster.submit(f"Number {number}.", f"j{number}", model) for number in range(count)]
    for job_id in ids:
        assert read(cluster.client, job_id)[1].outcome == "completed"
    found: Any = [cluster.client.hgetall(job_keys(job_id).record) for job_id in ids]
    return [{k.decode(): v.decode() for k, v in record.items()} for record in found]


@pytest.mark.timeout(120)
def test_true_limits_are_used_and_never_met(start: Start) -> None:
    cluster = start({"requests": 120}, "requests_per_minute = 120")
    cluster.worker()
    cluster.worker()
    finish(cluster, 24)
    seen = cluster.judged()
    assert {account["refused"] for account in seen.values()} == {0}
    assert {account["requests"] for account in seen.values()} == {12}


@pytest.mark.timeout(120)
def test_streams_never_exceed_the_limit(start: Start) -> None:
    cluster = start({"streams": 2}, "streams = 2", speed="40")
    cluster.worker()
    cluster.worker()
    finish(cluster, 12, "sim:slow")
    seen = cluster.judged()
    assert {account["refused"] for account in seen.values()} == {0}
    assert {account["worst_streams"] for account in seen.values()} == {2}


@pytest.mark.timeout(120)
def test_refusals_cost_no_attempt_and_every_job_completes(start: Start) -> None:
    cluster = start({"requests": 6}, "requests_per_minute = 6000", window_s=4)
    cluster.worker()
    records = finish(cluster, 18)
    assert sum(account["refused"] for account in cluster.judged().values()) > 0
    assert {record.get("failures", "0") for record in records} == {"0"}
    learned: Any = cluster.client.hgetall(pool_keys("simulator").learned)
    assert learned, "the limits were found to be lower"


@pytest.mark.timeout(120)
def test_a_bad_key_leaves_its_jobs_to_the_other(start: Start) -> None:
    cluster = start({}, "streams = 20")
    text = (cluster.state / "longstream.toml").read_text()
    cluster.configure(text.replace("sk-two", "invalid-two"))
    cluster.worker()
    records = finish(cluster, 10)
    assert {record["key"] for record in records} == {"one"}
    rests: Any = cluster.client.hkeys(pool_keys("simulator").rests)
    assert rests == [b"key two"]


def granted_to_the_dead(cluster: Cluster) -> Lease:
    """A worker asked for the job, and was killed with the answer in its hands."""
    cluster.submit("Say it once.", "once", "sim:plain")
    call = line.grant(
        cluster.settings.pools["simulator"],
        cluster.settings.accounts,
        "dead",
        slots=1,
        elsewhere=0,
        handoff_ms=1_500,
        alive_ms=1_500,
    )
    (lease,) = line.granted("simulator", line.run(cluster.client, call)).leases
    return lease


def said_once_and_the_slot_is_back(cluster: Cluster) -> bool:
    assert read(cluster.client, "once")[1].attempts == 1
    assert len(cluster.ledger()) == 1
    keys = pool_keys("simulator")
    wait_until("the slot is back", lambda: not cluster.client.exists(keys.load, keys.leases))
    return True


@pytest.mark.timeout(120)
def test_a_worker_killed_between_grant_and_message_loses_and_repeats_nothing(start: Start) -> None:
    cluster = start({}, "streams = 20")
    granted_to_the_dead(cluster)
    cluster.worker()
    assert said_once_and_the_slot_is_back(cluster)


@pytest.mark.timeout(120)
def test_a_worker_killed_between_message_and_start_loses_and_repeats_nothing(start: Start) -> None:
    cluster = start({}, "streams = 20")
    lease = granted_to_the_dead(cluster)
    with client_of(cluster.settings) as app:
        publish(app, cluster.client, "dead", lease)
        assert cluster.client.exists(direct_queue("dead"))
        cluster.worker()
        assert said_once_and_the_slot_is_back(cluster)
        # The message comes after all, to somebody who takes it.
        (alive,) = (name for name in cluster.alive() if name != "dead")
        publish(app, cluster.client, alive, lease)
        wait_until("it was taken", lambda: not cluster.client.exists(direct_queue(alive)))
    cluster.submit("And then this.", "next", "sim:plain")
    assert read(cluster.client, "next")[1].attempts == 1
    assert len(cluster.ledger()) == 2
    wait_until("its queue is gone", lambda: not cluster.client.exists(direct_queue("dead")))
