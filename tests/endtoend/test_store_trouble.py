"""A store that is full, frozen or gone for a while costs time, and not one character."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.job.submitting import StoreFull
from worker.store.connections import connect
from worker.store.keys import job_keys

STREAMS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path, speed="20", LONGSTREAM_WORKER__LEASE_S="3", LONGSTREAM_WORKER__RENEW_S="1"
    )
    with closing(running):
        yield running
        nothing_left(running)


def flowing(cluster: Cluster, jobs: list[str], more_than: int = 5) -> None:
    def each() -> bool:
        return all(cluster.client.xlen(job_keys(job).log) > more_than for job in jobs)

    wait_until("all flow", each)


def exact(cluster: Cluster, readers: list[Any]) -> None:
    ends = [reader.result(90) for reader in readers]
    assert {end.outcome for _, end in ends} == {"completed"}
    assert {text for text, _ in ends} == {str(entry["visible"]) for entry in cluster.ledger()}


def begun(cluster: Cluster, pool: ThreadPoolExecutor) -> list[Any]:
    """Streams that flow, each with a reader on a connection of its own."""
    jobs = [cluster.submit(f"Tell of {n}.", f"t{n}", "sim:slow") for n in range(STREAMS)]

    def following(job: str) -> Any:
        with connect(cluster.valkey.url) as client:
            return read(client, job)

    readers = [pool.submit(following, job) for job in jobs]
    flowing(cluster, jobs)
    return readers


@pytest.mark.timeout(120)
def test_a_full_store_stops_streams_and_refuses_jobs_until_there_is_room(cluster: Cluster) -> None:
    cluster.worker()
    with ThreadPoolExecutor(STREAMS) as pool:
        readers = begun(cluster, pool)
        # Less than it has: what it uses goes down as well as up.
        cluster.client.config_set("maxmemory", "1")
        with pytest.raises(StoreFull, match="full was not submitted: free memory"):
            cluster.submit("Tell of more.", "full", "sim:plain")
        wait_until("the worker feels it", lambda: "OutOfMemoryError" in cluster.log())
        assert not cluster.client.exists(job_keys("full").record)
        cluster.client.config_set("maxmemory", "0")
        exact(cluster, readers)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["frozen", pytest.param("dead", marks=pytest.mark.slow)])
def test_an_outage_longer_than_a_lease_costs_no_attempt(cluster: Cluster, how: str) -> None:
    """Whichever worker is back first leaves the others the time to renew."""
    workers = [cluster.worker("--concurrency", "2"), cluster.worker("--concurrency", "2")]
    with ThreadPoolExecutor(STREAMS) as pool:
        readers = begun(cluster, pool)
        away(cluster, how, cluster.settings.worker.lease_s + 1)
        exact(cluster, readers)
    assert {reader.result()[1].attempts for reader in readers} == {1}
    assert "lease.reclaimed" not in cluster.log()
    assert [worker.poll() for worker in workers] == [None, None]


def away(cluster: Cluster, how: str, for_s: float) -> None:
    """What is tested is this time itself."""
    pid = cluster.valkey.daemon.pid()
    assert pid is not None
    if how == "frozen":
        os.kill(pid, signal.SIGSTOP)
        time.sleep(for_s)
        os.kill(pid, signal.SIGCONT)
    else:
        cluster.valkey.kill()
        time.sleep(for_s)
        cluster.valkey.start()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_thirty_seconds_without_an_answer_cost_only_time(cluster: Cluster) -> None:
    worker = cluster.worker()
    with ThreadPoolExecutor(STREAMS) as pool:
        readers = begun(cluster, pool)
        away(cluster, "frozen", 30)
        exact(cluster, readers)
    assert worker.poll() is None
    text, end = read(cluster.client, cluster.submit("Tell of after.", "after", "sim:plain"))
    assert (end.outcome, bool(text)) == ("completed", True)
