"""Background responses: a lost worker shows no seam, and cancel reaches the provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tasks.local.simulator.ask import prompt_seed
from tests.harness.cluster import Cluster, attempts, read, running_on, streaming
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.job.cancel import Cancelled, cancel
from worker.job.records import parse_record
from worker.job.submission import Submission
from worker.job.submitting import submit
from worker.job.terms import OnInterrupt, Terms
from worker.ledger.spending import WORKER_LOST
from worker.log import reader
from worker.log.view import Attempt, Cut
from worker.messages.message import plain_message
from worker.outcomes import Outcome
from worker.store.keys import job_keys

#: About 2,000 visible tokens; at this speed they take some seconds.
MODEL = "sim:slow"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path,
        api="background",
        speed="20",
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
        LONGSTREAM_WORKER__DRAIN_S="30",
    )
    with closing(running):
        yield running
        nothing_left(running)


def intended(cluster: Cluster) -> str:
    """The text of the one response that was generated."""
    started = [entry for entry in cluster.ledger() if entry["path"].endswith("/responses")]
    assert len(started) == 1, "a second generation was paid for"
    return str(started[0]["visible"])


def generating(job_id: str, prompt: str, terms: Terms) -> Submission:
    return Submission(
        job_id=job_id,
        task="tasks.generate",
        model=MODEL,
        pool="simulator",
        label="generate",
        message=plain_message("tasks.generate", job_id, [prompt], {"model": MODEL}),
        terms=terms,
    )


@pytest.mark.timeout(120)
def test_a_killed_workers_response_is_taken_up_without_a_seam(cluster: Cluster) -> None:
    workers = [cluster.worker(), cluster.worker()]
    cluster.submit("Explain the tides.", "rejoin", MODEL)
    cluster.kill(running_on(cluster, "rejoin", workers))
    text, end = read(cluster.client, "rejoin")
    assert text == intended(cluster)
    assert (end.outcome, end.attempts) == ("completed", 2)
    items = list(reader.tail(cluster.client, "rejoin", raw=True))
    assert [item.mode for item in items if isinstance(item, Attempt)] == ["start", "reattach"]
    assert not [item for item in items if isinstance(item, Cut)]


@pytest.mark.timeout(120)
def test_a_draining_worker_hands_a_response_over_at_once(cluster: Cluster) -> None:
    workers = [cluster.worker(), cluster.worker()]
    cluster.submit("Explain the rain.", "handover", MODEL)
    running_on(cluster, "handover", workers).terminate()
    wait_until("another attempt", lambda: attempts(cluster, "handover") == b"2", 10)
    text, _ = read(cluster.client, "handover")
    assert text == intended(cluster)


@pytest.mark.timeout(120)
def test_cancel_stops_the_response_at_the_provider(cluster: Cluster) -> None:
    cluster.worker()
    cluster.submit("Explain the snow.", "stop", MODEL)
    wait_until("text flows", lambda: streaming(cluster, "stop"))
    cancel(_no_celery(), cluster.client, cluster.settings, "stop")
    _, end = read(cluster.client, "stop")
    assert end.outcome == Outcome.CANCELLED
    (entry,) = cluster.ledger()
    assert end.usage is not None
    assert 0 < end.usage.output == entry["usage"]["completion_tokens"] < 1_000
    assert cluster.client.hget(job_keys("stop").record, "attempt") == b"1"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_full_worker_stops_the_response_of_a_job_that_is_cancelled_while_it_waits(
    cluster: Cluster,
) -> None:
    cluster.worker("--concurrency", "1")
    cluster.submit("Explain the wind.", "busy", "sim:stall")
    wait_until("text flows", lambda: streaming(cluster, "busy"))
    stopping = cluster.worker()
    cluster.submit("Explain the snow.", "stop", MODEL)
    wait_until("text flows", lambda: streaming(cluster, "stop"))
    stopping.terminate()
    record = job_keys("stop").record
    wait_until("it waits", lambda: cluster.client.hget(record, "state") == b"waiting")

    assert cancel(_no_celery(), cluster.client, cluster.settings, "stop") is Cancelled.STOPPING
    _, end = read(cluster.client, "stop")
    assert (end.outcome, cluster.client.hget(record, "attempt")) == (Outcome.CANCELLED, b"2")
    seed = prompt_seed(MODEL, "Explain the snow.")
    begun = [each for each in cluster.ledger() if each["path"].endswith("/responses")]
    (used,) = [each["usage"]["completion_tokens"] for each in begun if each["prompt_seed"] == seed]
    assert end.usage is not None
    assert 0 < end.usage.output == used < 1_000
    cancel(_no_celery(), cluster.client, cluster.settings, "busy")
    assert read(cluster.client, "busy")[1].outcome == Outcome.CANCELLED


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_response_that_a_restart_leaves_behind_is_stopped_and_booked(cluster: Cluster) -> None:
    workers = [cluster.worker(), cluster.worker()]
    terms = Terms(on_interrupt=OnInterrupt.RESTART)
    submit(cluster.client, generating("anew", "Explain the dew.", terms))
    cluster.kill(running_on(cluster, "anew", workers))
    text, end = read(cluster.client, "anew")
    assert end.outcome == Outcome.COMPLETED

    left, whole = [each for each in cluster.ledger() if each["path"].endswith("/responses")]
    assert text == whole["visible"]
    stored: Any = cluster.client.hgetall(job_keys("anew").record)
    record = parse_record("anew", stored)
    assert record is not None
    first, second = record.spent
    assert first.tokens.output == left["usage"]["completion_tokens"] < second.tokens.output
    assert (first.wasted, first.estimated, second.wasted) == (WORKER_LOST, False, "")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_job_that_waits_is_ended_at_its_deadline_with_every_slot_taken(cluster: Cluster) -> None:
    cluster.worker("--concurrency", "1")
    cluster.submit("Explain the wind.", "busy", "sim:stall")
    wait_until("text flows", lambda: streaming(cluster, "busy"))
    submit(cluster.client, generating("late", "Explain the fog.", Terms(deadline_s=0.5)))
    _, end = read(cluster.client, "late")
    assert (end.outcome, end.reason) == (Outcome.EXPIRED, "its deadline has passed")
    assert cluster.client.hget(job_keys("busy").record, "state") == b"running"
    cancel(_no_celery(), cluster.client, cluster.settings, "busy")
    assert read(cluster.client, "busy")[1].outcome == Outcome.CANCELLED


def _no_celery() -> Any:
    """A running job is sealed by its worker: nothing is told to Celery from here."""
    return None
