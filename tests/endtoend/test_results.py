"""A job's end reaches Celery's result, whatever dies or fails between the two."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain
from celery.result import AsyncResult

from tasks import jobs
from tasks.generate import generate
from tests.endtoend.test_canvas import GET_S, PLAIN, prompt, requests
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from worker.admission import line
from worker.app import LongstreamApp
from worker.store.keys import job_keys, pool_keys

KEYS = pool_keys("simulator")


def result_key(job_id: str) -> str:
    return f"celery-task-meta-{job_id}"


def die_before_the_result_is_stored(cluster: Cluster, job_id: str) -> None:
    """What is left when a worker dies with its job sealed and not yet stored: no result, and, once
    its lease was reclaimed, the sealed job in the line."""
    cluster.client.delete(result_key(job_id))
    line.run(cluster.client, line.enqueue("simulator", job_id))


def test_a_job_the_store_refuses_has_no_result_until_it_is_mended(
    app: LongstreamApp, shared: Cluster
) -> None:
    first = generate.apply_async((prompt(),), {"model": PLAIN}, countdown=0.5)
    job = job_keys(first.id)
    shared.client.set(job.log, "in the way")
    wait_until("it was refused", lambda: shared.client.hexists(job.record, "refusals"))
    assert "job.store_refused" in shared.log()
    wait_until("it waits", lambda: shared.client.zscore(KEYS.delayed, first.id))
    assert first.state == "PENDING"
    shared.client.delete(job.log)
    shared.client.zadd(KEYS.delayed, {first.id: 0})
    line.wake(shared.client, "simulator", shared.alive()[0], "due")
    assert first.get(timeout=GET_S) == jobs.result(first.id)
    assert jobs.status(first.id).crashes == 0


@pytest.mark.parametrize("follows", ["one", "two", "a chain"])
def test_what_follows_a_repeated_result_runs_once(
    app: LongstreamApp, shared: Cluster, follows: str
) -> None:
    """Sent by the worker that died and by the one that repeats its result, it has the same ids."""
    links: Any = [generate.si(prompt(), model=PLAIN) for _ in range(1 if follows == "one" else 2)]
    if follows == "a chain":
        links = chain(links)
    asked, count = len(shared.ledger()), 2 if follows == "one" else 3
    with requests(shared) as made:
        first = generate.apply_async((prompt(),), {"model": PLAIN}, link=links)
        first.get(timeout=GET_S)
        wait_until("all were asked", lambda: len(shared.ledger()) == asked + count)
        wait_until("it is settled", lambda: settled(shared, first.id))
        die_before_the_result_is_stored(shared, first.id)
        AsyncResult(first.id, app=app).get(timeout=GET_S)
        wait_until("it is settled", lambda: settled(shared, first.id))
    assert len(made) == count


def settled(cluster: Cluster, *job_ids: str) -> bool:
    """The line knows nothing of these any more. It may still hold jobs of other tests."""
    client = cluster.client
    return not any(
        client.hexists(KEYS.held, job_id)
        or client.hexists(KEYS.tickets, job_id)
        or client.zscore(KEYS.leases, job_id) is not None
        for job_id in job_ids
    )


@pytest.mark.parametrize("model", [PLAIN, "sim:500"])
def test_a_sealed_job_without_a_result_is_not_asked_again(
    app: LongstreamApp, shared: Cluster, model: str
) -> None:
    with requests(shared) as made:
        first = generate.delay(prompt(), model=model)
        before = first.get(timeout=GET_S, propagate=False)
        wait_until("it is settled", lambda: settled(shared, first.id))
        die_before_the_result_is_stored(shared, first.id)
        again = AsyncResult(first.id, app=app)
        assert str(again.get(timeout=GET_S, propagate=False)) == str(before)
    assert len(made) == 1
    assert jobs.status(first.id).attempt == 1
    wait_until("it is settled", lambda: settled(shared, first.id))


def test_a_next_job_that_can_not_be_sent_fails_and_frees_the_slot(
    app: LongstreamApp, shared: Cluster
) -> None:
    last = chain(generate.s(prompt(), model=PLAIN), generate.s(nonsense=1))()
    with pytest.raises(TypeError, match="nonsense"):
        AsyncResult(last.id, app=app).get(timeout=GET_S)
    wait_until("it is settled", lambda: settled(shared, last.parent.id, last.id))
