"""Celery's visibility timeout is no clock of ours: a job far longer than it runs once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, read
from tests.harness.impatient import VISIBILITY_S
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.store.connections import connect

JOBS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    # At this speed an answer of 2,000 tokens takes more than a minute.
    running = Cluster(tmp_path, speed="1.2")
    with closing(running):
        yield running
        nothing_left(running)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jobs_of_a_minute_under_a_visibility_timeout_of_seconds_run_once(cluster: Cluster) -> None:
    for _ in range(2):
        cluster._run("celery", "celery", "-A", "tests.harness.impatient", "worker")
    wait_until("both ask for work", lambda: len(cluster.alive()) == 2, 60)
    jobs = [cluster.submit(f"Tell of {n}.", f"soak{n}", "sim:slow") for n in range(JOBS)]

    def following(job: str) -> Any:
        with connect(cluster.valkey.url) as client:
            return read(client, job)

    with ThreadPoolExecutor(JOBS) as pool:
        ends = list(pool.map(following, jobs))
    assert {(end.outcome, end.attempts) for _, end in ends} == {("completed", 1)}
    asked = Counter(entry["prompt_seed"] for entry in cluster.ledger())
    assert set(asked.values()) == {1}
    took = [entry["ended"] - entry["first_byte"] for entry in cluster.ledger()]
    assert min(took) > 10 * VISIBILITY_S
