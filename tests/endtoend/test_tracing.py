"""One trace for each job, also when its worker is killed; sent over OTLP by every process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from settings.model import Tracing
from tasks import jobs
from tests.harness.celery_app import client_of
from tests.harness.cluster import Cluster, read, streaming
from tests.harness.collector import Collector, told
from tests.harness.waiting import wait_until
from worker.seeing import tracing

PROMPT = "Explain the tides of 1066 to a lighthouse keeper."


@pytest.fixture
def collector() -> Iterator[Collector]:
    with closing(Collector()) as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, collector: Collector) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path,
        speed="60",
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
        LONGSTREAM_TRACING__ENDPOINT=collector.url,
    )
    with closing(running):
        yield running
    for sending in tracing._made.values():
        assert sending is not None
        sending.close()
    tracing._made.clear()


def wait_for(collector: Collector, name: str, count: int) -> list[Any]:
    wait_until(f"{count} of {name}", lambda: len(collector.named(name)) >= count)
    return collector.named(name)


@pytest.mark.timeout(120)
def test_a_job_whose_worker_is_killed_is_one_trace_with_two_attempts(
    cluster: Cluster, collector: Collector
) -> None:
    first = cluster.worker()
    with client_of(cluster.settings):
        job = jobs.submit("tasks.generate", PROMPT, model="sim:slow")
    wait_until("text flows", lambda: streaming(cluster, job))
    # What a process has not sent when it is killed is lost with it.
    wait_for(collector, "job.grant", 1)
    cluster.kill(first)
    cluster.worker()
    _, end = read(cluster.client, job)
    assert (end.outcome, end.attempts) == ("completed", 2)

    (submitted,) = wait_for(collector, "job.submit", 1)
    lost, done = wait_for(collector, "job.attempt", 2)
    grants = {span.span_id: span for span in wait_for(collector, "job.grant", 2)}
    assert {span.trace_id for span in collector.spans} == {submitted.trace_id}
    assert not submitted.parent_span_id
    assert {span.parent_span_id for span in grants.values()} == {submitted.span_id}
    assert done.parent_span_id in grants

    assert (told(lost)["attempt"], told(done)["attempt"]) == (1, 2)
    assert (lost.status.message, told(lost)["worker"]) == (
        "worker lost",
        told(next(iter(grants.values())))["worker"],
    )
    assert told(done)["mode"] == "restart"
    assert (told(done)["ended"], told(done)["length"]) == ("completed", end.length)
    assert told(done)["gen_ai.usage.output_tokens"] > 0
    assert {"asked", "first_delta"} <= {event.name for event in done.events}
    assert lost.start_time_unix_nano < lost.end_time_unix_nano <= done.end_time_unix_nano
    assert PROMPT.encode() not in b"".join(collector.bodies)


@pytest.mark.slow
def test_a_collector_that_is_away_holds_up_no_job_and_no_worker(
    cluster: Cluster, collector: Collector
) -> None:
    nowhere = "http://127.0.0.1:1"
    worker = cluster.worker(LONGSTREAM_TRACING__ENDPOINT=nowhere)
    settings = replace(cluster.settings, tracing=Tracing(endpoint=nowhere))
    with client_of(settings):
        job = jobs.submit("tasks.generate", PROMPT, model="sim:plain")
    assert read(cluster.client, job)[1].outcome == "completed"
    worker.terminate()
    assert worker.wait(20) == 0
    assert collector.spans == []


def test_a_command_sends_its_span_before_it_ends(cluster: Cluster, collector: Collector) -> None:
    asking = cluster.cli("ask", PROMPT, "--detach")
    assert asking.wait(30) == 0
    assert [told(span)["task"] for span in collector.named("job.submit")] == ["tasks.generate"]
