"""Workers started with Celery's own command."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.waiting import wait_until
from worker.admission import line
from worker.store.keys import job_keys, pool_keys

PLAIN = "sim:plain"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path_factory.mktemp("command"),
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
    )
    yield running
    running.close()


@pytest.fixture
def started(cluster: Cluster) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers to be ended with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            cluster.kill(process, signal.SIGTERM)


def ready(cluster: Cluster, process: subprocess.Popen[bytes]) -> str:
    """The name of a worker, once it asks for work."""

    def name() -> str | None:
        assert process.poll() is None, cluster.log("celery")
        found = [w for w in cluster.alive() if w.startswith(f"longstream-{process.pid}@")]
        return found[0] if found else None

    return wait_until("the worker asks for work", name, 30)


def slots(cluster: Cluster, worker: str) -> int:
    return int(cluster.client.hget(pool_keys("simulator").slots, worker) or 0)


def test_two_plain_workers_of_one_host_are_two_workers(
    cluster: Cluster, started: list[subprocess.Popen[bytes]]
) -> None:
    started += [cluster.celery("-c", "3"), cluster.celery("-c", "3")]
    names = {ready(cluster, process) for process in started}
    assert len(names) == 2
    assert [slots(cluster, name) for name in names] == [3, 3]
    jobs = [cluster.submit(f"Say {n}.", f"two{n}", PLAIN) for n in range(6)]
    ends = [read(cluster.client, job)[1] for job in jobs]
    assert {end.outcome for end in ends} == {"completed"}
    for process in started:
        process.terminate()
        assert process.wait(20) == 0


def test_prefork_runs_jobs_cancels_them_and_says_what_it_costs(
    cluster: Cluster, started: list[subprocess.Popen[bytes]]
) -> None:
    process = cluster.celery("-P", "prefork", "-c", "2", LONGSTREAM_WORKER__LISTEN="127.0.0.1:0")
    started.append(process)
    name = ready(cluster, process)
    assert slots(cluster, name) == 2
    assert "worker.prefork" in cluster.log("celery")
    assert "listener.unavailable" in cluster.log("celery")

    text, end = read(cluster.client, cluster.submit("Say fork.", "fork", PLAIN))
    assert (end.outcome, end.length) == ("completed", len(text))
    cluster.submit("Say nothing.", "forked", "sim:stall")
    record = job_keys("forked").record
    wait_until("it runs", lambda: cluster.client.hget(record, "state") == b"running")
    cluster.client.hset(record, "cancel_ms", 1)
    line.run(cluster.client, line.withdraw("simulator", "forked"))
    assert read(cluster.client, "forked")[1].outcome == "cancelled"


def test_prefork_hands_its_streams_over_when_it_stops(
    cluster: Cluster, started: list[subprocess.Popen[bytes]]
) -> None:
    process = cluster.celery("-P", "prefork", "-c", "1", LONGSTREAM_WORKER__DRAIN_S="0")
    started.append(process)
    ready(cluster, process)
    cluster.submit("Say nothing.", "drained", "sim:stall")
    record = job_keys("drained").record
    wait_until("it runs", lambda: cluster.client.hget(record, "state") == b"running")
    process.terminate()
    assert process.wait(20) == 0
    assert cluster.client.hget(record, "state") == b"waiting"
    # It would keep the workers of other tests.
    assert line.run(cluster.client, line.withdraw("simulator", "drained")) == b"waiting"


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["-P", "solo"], {}, "longstream: the Celery pool solo is refused: "),
        ([], {"LONGSTREAM_REDIS_URL": ""}, "longstream: no Redis is configured: "),
        ([], {"LONGSTREAM_SIMULATOR_URL": ""}, "longstream: no API key is configured: "),
        ([], {"LONGSTREAM_WORKER__LEASE_S": "no"}, "longstream: worker.lease_s: "),
    ],
)
def test_what_can_not_work_is_refused_in_one_line(
    cluster: Cluster, arguments: list[str], variables: dict[str, str], said: str
) -> None:
    before = len(cluster.log("celery")) if (cluster.state / "celery.log").exists() else 0
    assert cluster.celery(*arguments, **variables).wait(20) != 0
    lines = cluster.log("celery")[before:].strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(said)
