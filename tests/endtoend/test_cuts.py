"""Connections to Redis that are cut, and a server that changes its role, under load."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.store.connections import connect
from worker.store.keys import job_keys

STREAMS = 3
CUTS = 50


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path, speed="20", LONGSTREAM_WORKER__LEASE_S="3", LONGSTREAM_WORKER__RENEW_S="1"
    )
    with closing(running):
        yield running
        nothing_left(running)


@pytest.fixture
def worker(cluster: Cluster) -> subprocess.Popen[bytes]:
    return cluster.worker()


def streams(cluster: Cluster, pool: ThreadPoolExecutor) -> list[Any]:
    jobs = [cluster.submit(f"Tell of {n}.", f"cut{n}", "sim:slow") for n in range(STREAMS)]

    def following(job: str) -> Any:
        with connect(cluster.valkey.url) as client:
            return read(client, job)

    readers = [pool.submit(following, job) for job in jobs]
    wait_until("all flow", lambda: all(cluster.client.xlen(job_keys(j).log) > 5 for j in jobs))
    return readers


def exact(cluster: Cluster, readers: list[Any]) -> None:
    ends = [reader.result(60) for reader in readers]
    assert {end.outcome for _, end in ends} == {"completed"}
    truths = {str(e["visible"]) for e in cluster.ledger() if e["model"] == "sim:slow"}
    assert {text for text, _ in ends} == truths


def runs(cluster: Cluster, job_id: str, within_s: float) -> None:
    cluster.submit(f"Say {job_id}.", job_id, "sim:plain")
    record = job_keys(job_id).record
    wait_until(
        f"{job_id} has run",
        lambda: cluster.client.hget(record, "outcome") == b"completed",
        within_s,
    )


@pytest.mark.timeout(120)
def test_fifty_cuts_of_every_connection_lose_nothing_and_leave_no_worker_deaf(
    cluster: Cluster, worker: subprocess.Popen[bytes]
) -> None:
    with ThreadPoolExecutor(STREAMS) as pool:
        readers = streams(cluster, pool)
        for _ in range(CUTS):
            cluster.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            cluster.client.ping()
        exact(cluster, readers)
    runs(cluster, "heard", 10)
    assert worker.poll() is None


@pytest.mark.timeout(120)
def test_a_server_that_is_a_replica_for_a_while_stops_nothing_for_good(
    cluster: Cluster, worker: subprocess.Popen[bytes]
) -> None:
    with ThreadPoolExecutor(STREAMS) as pool:
        readers = streams(cluster, pool)
        cluster.client.replicaof("127.0.0.1", "1")
        wait_until("the worker feels it", lambda: "ReadOnlyError" in cluster.log())
        cluster.client.replicaof("NO", "ONE")
        exact(cluster, readers)
    runs(cluster, "written", 15)
    assert worker.poll() is None


@pytest.mark.timeout(120)
def test_connections_do_not_grow_with_the_number_of_jobs(cluster: Cluster) -> None:
    """They grow with the threads of the pool, each of which has one for results."""
    threads = 4
    cluster.worker("--concurrency", str(threads))

    def connected() -> int:
        return len(cluster.client.client_list())

    def batch(name: str) -> None:
        jobs = [cluster.submit(f"Say {name} {n}.", f"{name}{n}", "sim:plain") for n in range(12)]
        assert {read(cluster.client, job)[1].outcome for job in jobs} == {"completed"}

    # A thread is made when no other is free: all must have run a job at the same time.
    slow = [cluster.submit(f"Tell of {n}.", f"slow{n}", "sim:slow") for n in range(threads)]
    wait_until("all flow", lambda: all(cluster.client.xlen(job_keys(j).log) > 5 for j in slow))
    assert {read(cluster.client, job)[1].outcome for job in slow} == {"completed"}
    batch("first")
    before = connected()
    batch("second")
    batch("third")
    # A thread may have had nothing to do before.
    wait_until("no more than before", lambda: connected() < before + threads)
