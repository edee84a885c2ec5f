"""A worker that is told to stop: it begins nothing, loses nothing, and says so in time."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, attempts, read, running_on, streaming
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.job.cancel import cancel
from worker.store.connections import connect, now_ms
from worker.store.keys import job_keys, pool_keys

MODEL = "sim:slow"
#: A running job is sealed by its worker: nothing is told to Celery from here.
NOBODY: Any = None
PATIENT = {"LONGSTREAM_WORKER__DRAIN_S": "600"}
#: Jobs of the rolling restart, and how often every worker is restarted meanwhile.
JOBS, WORKERS, ROUNDS = 60, 3, 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path, speed="20", LONGSTREAM_WORKER__LEASE_S="3", LONGSTREAM_WORKER__RENEW_S="1"
    )
    with closing(running):
        yield running
        nothing_left(running)


def field(cluster: Cluster, job_id: str, name: str) -> bytes | None:
    found: Any = cluster.client.hget(job_keys(job_id).record, name)
    return found


def told_to_stop(cluster: Cluster, worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    # With no slots, in the eyes of the line: it takes nothing any more.
    wait_until("the line has heard", lambda: no_slots(cluster, worker))


def no_slots(cluster: Cluster, worker: subprocess.Popen[bytes]) -> bool:
    slots: Any = cluster.client.hgetall(pool_keys("simulator").slots)
    mine = f"longstream-{worker.pid}@".encode()
    return any(name.startswith(mine) and count == b"0" for name, count in slots.items())


@pytest.mark.timeout(120)
def test_what_a_stopping_worker_hands_back_goes_on_within_a_second(cluster: Cluster) -> None:
    at_once = {"LONGSTREAM_WORKER__DRAIN_S": "0"}
    workers = [cluster.worker(**at_once), cluster.worker(**at_once)]
    cluster.submit("Explain the wind.", "quick", MODEL)
    leaving = running_on(cluster, "quick", workers)
    told_ms = now_ms(cluster.client)
    leaving.terminate()
    wait_until("the next attempt", lambda: attempts(cluster, "quick") == b"2")
    began_ms = int(field(cluster, "quick", "attempt_ms") or 0)
    assert began_ms - told_ms <= 1000
    assert leaving.wait(20) == 0
    cancel(NOBODY, cluster.client, cluster.settings, "quick")
    read(cluster.client, "quick")


@pytest.mark.timeout(120)
def test_a_job_can_be_cancelled_while_its_worker_drains(cluster: Cluster) -> None:
    worker = cluster.worker(**PATIENT)
    cluster.submit("Explain the dew.", "late", MODEL)
    wait_until("text flows", lambda: streaming(cluster, "late"))
    told_to_stop(cluster, worker)
    cancel(NOBODY, cluster.client, cluster.settings, "late")
    assert read(cluster.client, "late")[1].outcome == "cancelled"
    assert worker.wait(20) == 0


@pytest.mark.timeout(120)
def test_a_stopping_worker_finishes_what_runs_and_begins_nothing(cluster: Cluster) -> None:
    """Neither what waits for its slot, nor what is submitted from then on."""
    leaving = cluster.worker("--concurrency", "1", **PATIENT)
    cluster.submit("Explain the tide.", "runs", MODEL)
    wait_until("text flows", lambda: streaming(cluster, "runs"))
    cluster.submit("Explain the ebb.", "waits", "sim:plain")
    told_to_stop(cluster, leaving)
    cluster.submit("Explain the moon.", "comes", "sim:plain")
    assert read(cluster.client, "runs")[1].attempts == 1
    assert leaving.wait(20) == 0
    assert [field(cluster, job, "attempt") for job in ("waits", "comes")] == [None, None]
    cluster.worker()
    assert {read(cluster.client, job)[1].attempts for job in ("waits", "comes")} == {1}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_rolling_restart_under_load_loses_and_repeats_nothing(cluster: Cluster) -> None:
    """Every worker is told to stop and replaced, again and again, while jobs run and come."""
    short = {"LONGSTREAM_WORKER__DRAIN_S": "0.5"}
    workers = [cluster.worker("--concurrency", "12", **short) for _ in range(WORKERS)]
    jobs = [cluster.submit(f"Tell of {n}.", f"roll{n}", MODEL) for n in range(JOBS // 2)]

    def following(job: str) -> Any:
        with connect(cluster.valkey.url) as client:
            return read(client, job)

    with ThreadPoolExecutor(JOBS) as pool:
        readers = [pool.submit(following, job) for job in jobs]
        for turn in range(ROUNDS * WORKERS):
            workers[turn % WORKERS].terminate()
            for n in range(JOBS // 2 // ROUNDS // WORKERS):
                job = cluster.submit(f"Tell of {turn}, {n}.", f"roll{turn}-{n}", MODEL)
                readers.append(pool.submit(following, job))
                jobs.append(job)
            assert workers[turn % WORKERS].wait(30) == 0
            workers[turn % WORKERS] = cluster.worker("--concurrency", "12", **short)
        ends = [reader.result(120) for reader in readers]
    assert {end.outcome for _, end in ends} == {"completed"}
    assert {text for text, _ in ends} == {str(entry["visible"]) for entry in cluster.ledger()}
    assert len({text for text, _ in ends}) == len(jobs) == JOBS
    assert max(end.attempts for _, end in ends) > 1, "nothing was handed back"
    assert not any(field(cluster, job, "crashes") for job in jobs)
    assert not any(field(cluster, job, "failures") not in (None, b"0") for job in jobs)
