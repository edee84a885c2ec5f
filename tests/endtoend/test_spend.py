"""What `spend` adds up is what the provider billed, and nobody pays twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks import jobs
from tests.harness.celery_app import client_of
from tests.harness.cluster import Cluster, read as read_job, streaming
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.job.records import Record, parse_record
from worker.ledger.books import read
from worker.ledger.totals import Row
from worker.store.keys import job_keys


def rows(cluster: Cluster) -> list[Row]:
    today = datetime.now(UTC).date()
    return read(cluster.client, today - timedelta(days=1), today)


def record(cluster: Cluster, job_id: str) -> Record:
    raw: Any = cluster.client.hgetall(job_keys(job_id).record)
    found = parse_record(job_id, raw)
    assert found is not None
    return found


def total(found: list[Row]) -> tuple[int, int, int]:
    return (
        sum(row.input for row in found),
        sum(row.output for row in found),
        sum(row.reasoning for row in found),
    )


def billed(cluster: Cluster) -> tuple[int, int, int]:
    lines = cluster.bill()
    return (
        sum(line["prompt_tokens"] for line in lines),
        sum(line["completion_tokens"] for line in lines),
        sum(line["reasoning_tokens"] for line in lines),
    )


def test_the_books_are_the_bill_to_the_last_token(tmp_path: Path) -> None:
    """Answers, refusals by the provider, unknown models: everything that is not cut short."""
    cluster = Cluster(tmp_path)
    try:
        cluster.worker()
        jobs = [cluster.submit(f"Say {n}.", f"plain{n}", "sim:plain") for n in range(10)]
        jobs += [cluster.submit(f"Think {n}.", f"think{n}") for n in range(5)]
        jobs.append(cluster.submit("Who?", "unknown", "no-such-model"))
        for job in jobs:
            read_job(cluster.client, job)
        wait_until("everything is booked", lambda: sum(row.attempts for row in rows(cluster)) == 15)

        assert total(rows(cluster)) == billed(cluster)
        assert sum(row.estimated for row in rows(cluster)) == 0
        assert record(cluster, "unknown").spent == ()
        nothing_left(cluster)
    finally:
        cluster.close()


def test_the_books_are_the_bill_also_of_streams_that_were_killed_cancelled_or_cut(
    tmp_path: Path,
) -> None:
    """The provider tells afterwards what a stream used whose end nobody read."""
    cluster = Cluster(
        tmp_path, speed="8", LONGSTREAM_WORKER__LEASE_S="2.1", LONGSTREAM_WORKER__RENEW_S="1"
    )
    try:
        first = cluster.worker()
        cluster.submit("Tell me more.", "killed")
        with client_of(cluster.settings):
            fail = jobs.Terms(on_interrupt=jobs.OnInterrupt.FAIL)
            jobs.submit("tasks.generate", "Less.", model="sim:eof", job_id="cut", terms=fail)
        wait_until("text flows", lambda: streaming(cluster, "killed"))
        cluster.kill(first)
        cluster.worker()
        cluster.submit("Stop there.", "cancelled", "sim:slow")
        log = job_keys("cancelled").log
        wait_until("text flows", lambda: cluster.client.xlen(log) > 3)
        with client_of(cluster.settings):
            jobs.cancel("cancelled")
        for job in ("killed", "cut", "cancelled"):
            read_job(cluster.client, job)
        nothing_left(cluster)

        assert total(rows(cluster)) == billed(cluster)
        assert sum(row.estimated for row in rows(cluster)) == 0
        lost, whole = record(cluster, "killed").spent
        assert (lost.wasted, whole.wasted) == ("worker lost", "")
        assert [each.wasted for each in record(cluster, "cancelled").spent] == ["cancelled"]
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_background_response_is_paid_for_exactly_although_its_worker_was_killed(
    tmp_path: Path,
) -> None:
    cluster = Cluster(
        tmp_path,
        speed="8",
        api="background",
        LONGSTREAM_WORKER__LEASE_S="2.1",
        LONGSTREAM_WORKER__RENEW_S="1",
    )
    try:
        first = cluster.worker()
        cluster.submit("Tell me more.", "taken-up")
        wait_until("text flows", lambda: streaming(cluster, "taken-up"))
        cluster.kill(first)
        cluster.worker()
        read_job(cluster.client, "taken-up")
        wait_until("it is booked", lambda: bool(rows(cluster)))

        (row,) = rows(cluster)
        assert record(cluster, "taken-up").attempt == 2
        assert (row.attempts, row.estimated, row.cause) == (1, 0, "")
        assert total([row]) == billed(cluster)
    finally:
        cluster.close()
