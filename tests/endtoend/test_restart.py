"""A broker and store that dies and comes back: nothing is lost, and no worker goes deaf."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.store.connections import connect
from worker.store.keys import job_keys, pool_keys

STREAMS = 5
KEYS = pool_keys("simulator")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path_factory.mktemp("restart"),
        speed="20",
        LONGSTREAM_WORKER__LEASE_S="3",
        LONGSTREAM_WORKER__RENEW_S="1",
    )
    with closing(running):
        yield running
        nothing_left(running)


@pytest.mark.timeout(120)
def test_streams_survive_restarts_of_the_broker_and_new_jobs_run(cluster: Cluster) -> None:
    worker = cluster.worker()
    jobs = [cluster.submit(f"Tell of {n}.", f"long{n}", "sim:slow") for n in range(STREAMS)]
    with ThreadPoolExecutor(STREAMS) as pool, connect(cluster.valkey.url) as client:
        readers = [pool.submit(read, client, job) for job in jobs]
        wait_until("all flow", lambda: all(flows(cluster, job) for job in jobs))
        for restart in range(2):
            cluster.valkey.kill()
            cluster.valkey.start()
            cluster.submit(f"Say {restart}.", f"new{restart}", "sim:plain")
            wait_until("a new job runs", lambda n=restart: done(cluster, f"new{n}"), 10)
        ends = [reader.result(60) for reader in readers]
    assert worker.poll() is None
    assert {end.outcome for _, end in ends} == {"completed"}
    truths = {entry["visible"] for entry in cluster.ledger() if entry["model"] == "sim:slow"}
    assert {text for text, _ in ends} == truths
    assert len(truths) == STREAMS
    # A result that Redis was too far away to take is repeated when its lease has lapsed.
    wait_until("all is settled", lambda: not cluster.client.exists(KEYS.held), 60)
    cluster.kill(worker, signal.SIGTERM)
    assert worker.returncode == 0


def flows(cluster: Cluster, job_id: str) -> bool:
    return cluster.client.xlen(job_keys(job_id).log) > 5


def done(cluster: Cluster, job_id: str) -> bool:
    return cluster.client.hget(job_keys(job_id).record, "outcome") == b"completed"


@pytest.mark.timeout(120)
def test_an_answer_that_ends_while_the_store_is_away_is_kept(cluster: Cluster) -> None:
    cluster.worker()
    cluster.submit("Tell of the deep.", "deep", "sim:slow")
    wait_until("it flows", lambda: flows(cluster, "deep"))
    cluster.valkey.kill()
    wait_until("the answer has ended", lambda: cluster.ledger()[0]["finished"])
    cluster.valkey.start()
    text, end = read(cluster.client, "deep")
    (request,) = cluster.ledger()
    assert (end.outcome, end.attempts, text) == ("completed", 1, request["visible"])
