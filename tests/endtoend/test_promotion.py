"""Failover to a replica that lacks the last entries: exact texts, for every reader."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.leaks import nothing_left
from tests.harness.pair import Pair
from tests.harness.waiting import wait_until
from worker.log.stored import read_stored
from worker.log.verify import verify
from worker.store.connections import connect
from worker.store.keys import job_keys

STREAMS = 4


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    servers = Pair(tmp_path)
    with closing(servers):
        yield servers


@pytest.fixture
def cluster(pair: Pair, tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path,
        speed="20",
        LONGSTREAM_REDIS_URL=pair.url,
        LONGSTREAM_WORKER__LEASE_S="3",
        LONGSTREAM_WORKER__RENEW_S="1",
    )
    with closing(running):
        running.client.close()
        running.client = connect(pair.url)
        yield running


def entries(client: Any, job_id: str) -> int:
    return int(client.xlen(job_keys(job_id).log))


def truth(cluster: Cluster) -> set[str]:
    return {str(entry["visible"]) for entry in cluster.ledger()}


@pytest.mark.timeout(120)
def test_the_worker_writes_again_what_the_replica_lacks(cluster: Cluster, pair: Pair) -> None:
    cluster.worker()
    jobs = [cluster.submit(f"Tell of {n}.", f"fo{n}", "sim:slow") for n in range(STREAMS)]
    with ThreadPoolExecutor(STREAMS) as pool:
        clients = [connect(pair.url) for _ in jobs]
        readers = [pool.submit(read, c, job) for c, job in zip(clients, jobs, strict=True)]
        wait_until("all flow", lambda: all(entries(pair.replica, job) > 5 for job in jobs))
        pair.cut()
        lacking = {job: entries(pair.replica, job) for job in jobs}
        wait_until(
            "more flows", lambda: all(entries(pair.primary, j) > lacking[j] + 5 for j in jobs)
        )
        pair.fail_over()
        ends = [reader.result(60) for reader in readers]
    for client in clients:
        client.close()
    assert {text for text, _ in ends} == truth(cluster)
    assert {(end.outcome, end.attempts) for _, end in ends} == {("completed", 1)}
    for job in jobs:
        log = read_stored(cluster.client.execute_command, job_keys(job).log)
        assert verify(log, ended=True, attempts=1).ok
        assert read(cluster.client, job)[0] in truth(cluster)
    nothing_left(cluster)


@pytest.mark.timeout(120)
def test_a_worker_that_dies_with_the_primary_costs_a_restart_and_no_character(
    cluster: Cluster, pair: Pair
) -> None:
    first = cluster.worker()
    cluster.submit("Tell of both.", "both", "sim:slow")
    with ThreadPoolExecutor(1) as pool, connect(pair.url) as client:
        reader = pool.submit(read, client, "both")
        wait_until("it flows", lambda: entries(pair.replica, "both") > 5)
        pair.cut()
        lacking = entries(pair.replica, "both")
        wait_until("more flows", lambda: entries(pair.primary, "both") > lacking + 5)
        cluster.kill(first)
        pair.fail_over()
        cluster.worker()
        text, end = reader.result(60)
    assert {text} == truth(cluster)
    assert (end.outcome, end.attempts) == ("completed", 2)


@pytest.mark.timeout(120)
def test_a_job_the_replica_never_heard_of_runs_when_it_is_submitted_again(
    cluster: Cluster, pair: Pair
) -> None:
    pair.cut()
    cluster.submit("Tell of it.", "again", "sim:plain")
    pair.fail_over()
    cluster.worker()
    assert not cluster.client.exists(job_keys("again").record)
    cluster.submit("Tell of it.", "again", "sim:plain")
    text, end = read(cluster.client, "again")
    assert ({text}, end.outcome) == (truth(cluster), "completed")
