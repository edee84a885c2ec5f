"""When all jobs have ended, nothing of them is left but what has a TTL."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.store.keys import direct_queue, inbox_key, pool_keys

JOBS = 200
WORKERS = 6


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path_factory.mktemp("leftovers"),
        LONGSTREAM_WORKER__LEASE_S="3",
        LONGSTREAM_WORKER__RENEW_S="1",
        LONGSTREAM_WORKER__HANDOFF_S="1",
    )
    yield running
    running.close()


@pytest.mark.timeout(120)
def test_two_hundred_jobs_at_once_are_exact_and_leave_nothing(cluster: Cluster) -> None:
    worker = cluster.worker("--concurrency", "100")
    jobs = [cluster.submit(f"Say {n}.", f"j{n}", "sim:plain") for n in range(JOBS)]
    texts = [read(cluster.client, job) for job in jobs]
    assert {end.outcome for _, end in texts} == {"completed"}
    assert {text for text, _ in texts} == {entry["visible"] for entry in cluster.ledger()}
    assert len(cluster.ledger()) == JOBS
    nothing_left(cluster)
    assert not cluster.client.exists(inbox_key("simulator", cluster.alive()[0]))
    cluster.kill(worker, signal.SIGTERM)
    nothing_left(cluster)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_workers_that_come_and_go_leave_nothing(cluster: Cluster) -> None:
    """However they go, and with a message in their queue that they never fetched."""
    workers = [cluster.celery("-E") for _ in range(WORKERS)]
    wait_until("all ask for work", lambda: len(cluster.alive()) == WORKERS, 60)
    nothing_left(cluster)
    last = next(name for name in cluster.alive() if f"-{workers[-1].pid}@" in name)
    for worker in workers[:2]:
        worker.send_signal(signal.SIGSTOP)
        name = next(name for name in cluster.alive() if f"-{worker.pid}@" in name)
        cluster.client.lpush(direct_queue(name), "a message")
        fetched = json.dumps([{"body": "a message"}, "", direct_queue(name)])
        cluster.client.hset("unacked", name, fetched)
        cluster.client.zadd("unacked_index", {name: time.time()})
        cluster.client.lpush(inbox_key("simulator", name), "slot")
        cluster.kill(worker, signal.SIGKILL)
    for worker in workers[2:-1]:
        worker.terminate()
    assert [worker.wait(30) for worker in workers[2:-1]] == [0, 0, 0]
    assert read(cluster.client, cluster.submit("Say it.", "late", "sim:plain"))
    wait_until("the dead are forgotten", lambda: cluster.alive() == [last])
    nothing_left(cluster)
    assert cluster.client.hkeys(pool_keys("simulator").slots) == [last.encode()]
    cluster.kill(workers[-1], signal.SIGTERM)
    nothing_left(cluster)
