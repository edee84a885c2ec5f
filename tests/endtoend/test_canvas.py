"""What Celery promises its users holds for streaming tasks, through a real worker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError, TaskRevokedError
from celery.result import AsyncResult

from tasks import jobs
from tasks.generate import generate
from tasks.refactor import refactor
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from worker.app import LongstreamApp
from worker.errors import JobFailed
from worker.job.cancel import Cancelled
from worker.store.keys import job_keys

# Celery stores results with a command that redis-py has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

PLAIN = "sim:plain"
GET_S = 20


@contextmanager
def requests(cluster: Cluster) -> Iterator[list[dict[str, Any]]]:
    """What reached the provider meanwhile; filled when the block ends."""
    before, made = len(cluster.ledger()), []
    yield made
    made += cluster.ledger()[before:]


def prompt() -> str:
    """Never the same twice, so that its answer tells it from all others."""
    return f"Say {uuid.uuid4()}."


def test_generate_returns_the_text(app: LongstreamApp, shared: Cluster) -> None:
    with requests(shared) as made:
        result = generate.delay(prompt(), model=PLAIN)
        text = result.get(timeout=GET_S)
    (request,) = made
    assert text == request["visible"] == jobs.result(result.id)
    assert jobs.status(result.id).outcome == "completed"


def test_refactor_returns_the_changed_files(app: LongstreamApp, shared: Cluster) -> None:
    with requests(shared) as made:
        file = {"path": "a.py", "text": "def f():\n    return 1\n"}
        answer = refactor.delay([file], prompt(), model=PLAIN).get(timeout=GET_S)
    assert len(made) == 1
    assert list(answer["files"]) == ["a.py"]
    assert answer["files"]["a.py"] != file["text"]


def test_whoever_knows_the_id_gets_the_result(app: LongstreamApp) -> None:
    job = jobs.submit("tasks.generate", prompt(), model=PLAIN)
    text = AsyncResult(job, app=app).get(timeout=GET_S)
    assert text == jobs.result(job)
    assert AsyncResult(job, app=app).successful()


def test_a_chain_asks_with_the_answer_before(app: LongstreamApp, shared: Cluster) -> None:
    with requests(shared) as made:
        last = chain(generate.s(prompt(), model=PLAIN), generate.s(model=PLAIN))()
        text = last.get(timeout=GET_S)
    first, second = made
    assert last.parent.get(timeout=GET_S) == first["visible"]
    assert text == second["visible"]
    assert jobs.result(last.id) == text


def test_a_group_returns_every_text_in_order(app: LongstreamApp, shared: Cluster) -> None:
    with requests(shared) as made:
        results = group(generate.s(prompt(), model=PLAIN) for _ in range(5))()
        texts = results.get(timeout=GET_S)
    assert len(made) == 5
    assert texts == [jobs.result(result.id) for result in results]
    assert sorted(texts) == sorted(request["visible"] for request in made)


def test_a_chord_ends_with_its_body(app: LongstreamApp, shared: Cluster) -> None:
    header = [generate.s(prompt(), model=PLAIN) for _ in range(3)]
    with requests(shared) as made:
        body = chord(header)(generate.si("Sum up.", model=PLAIN))
        assert body.get(timeout=GET_S) == made_last(shared)
    assert len(made) == 4


def made_last(cluster: Cluster) -> str:
    return str(cluster.ledger()[-1]["visible"])


def test_a_link_follows_success(app: LongstreamApp) -> None:
    follower = generate.s(model=PLAIN).set(task_id=str(uuid.uuid4()))
    first = generate.apply_async((prompt(),), {"model": PLAIN}, link=follower)
    assert first.get(timeout=GET_S)
    assert AsyncResult(follower.options["task_id"], app=app).get(timeout=GET_S)


def test_a_link_error_follows_failure(app: LongstreamApp) -> None:
    follower = generate.si(prompt(), model=PLAIN).set(task_id=str(uuid.uuid4()))
    first = generate.apply_async((prompt(),), {"model": "sim:500"}, link_error=follower)
    with pytest.raises(JobFailed):
        first.get(timeout=GET_S)
    assert AsyncResult(follower.options["task_id"], app=app).get(timeout=GET_S)


def test_a_countdown_waits_in_the_line(app: LongstreamApp, shared: Cluster) -> None:
    result = generate.apply_async((prompt(),), {"model": PLAIN}, countdown=1.5)
    assert jobs.status(result.id).state == jobs.State.WAITING
    assert result.get(timeout=GET_S)
    record = jobs.status(result.id)
    assert record.started_ms - record.created_ms >= 1500


def test_what_follows_at_its_own_time_waits_for_it(app: LongstreamApp) -> None:
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    last = chain(generate.s(prompt(), model=PLAIN), generate.s(model=PLAIN).set(eta=due))()
    assert last.get(timeout=GET_S)
    assert jobs.status(last.id).started_ms >= due.timestamp() * 1000


@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        ("sim:500", "failed"),
        ("sim:length", "incomplete"),
        ("sim:filter", "filtered"),
        ("sim:refuse", "refused"),
        ("sim:eof", "interrupted"),
    ],
)
def test_a_job_without_an_answer_raises_how_it_ended(
    app: LongstreamApp, model: str, outcome: str
) -> None:
    result = generate.delay(prompt(), model=model)
    with pytest.raises(JobFailed) as raised:
        result.get(timeout=GET_S)
    record = jobs.status(result.id)
    assert (raised.value.outcome, raised.value.reason) == (outcome, record.reason)
    assert str(raised.value).startswith(f"{outcome}: ")
    assert result.state == "FAILURE"


def test_a_waiting_job_that_is_cancelled_is_revoked(app: LongstreamApp, shared: Cluster) -> None:
    with requests(shared) as made:
        result = generate.apply_async((prompt(),), {"model": PLAIN}, countdown=600)
        assert jobs.cancel(result.id) is Cancelled.DONE
        with pytest.raises(TaskRevokedError):
            result.get(timeout=GET_S)
    assert (result.state, made) == ("REVOKED", [])


def test_a_running_job_that_is_cancelled_is_revoked(app: LongstreamApp, shared: Cluster) -> None:
    result = generate.delay(prompt(), model="sim:stall")
    wait_until("text flows", lambda: shared.client.xlen(job_keys(result.id).log) > 1)
    asked_at = time.time()
    assert jobs.cancel(result.id) is Cancelled.STOPPING
    assert jobs.cancel(result.id) in (Cancelled.STOPPING, Cancelled.ENDED), "twice is fine"
    with pytest.raises(TaskRevokedError):
        result.get(timeout=GET_S)
    assert result.state == "REVOKED"
    wait_until("the provider sees it", lambda: shared.ledger()[-1]["client_disconnected"])
    assert shared.ledger()[-1]["ended"] - asked_at < 1


@pytest.mark.parametrize("model", [PLAIN, "sim:stall"])
def test_a_result_that_is_revoked_cancels_its_job(
    app: LongstreamApp, shared: Cluster, model: str
) -> None:
    waiting = {"countdown": 600} if model == PLAIN else {}
    result = generate.apply_async((prompt(),), {"model": model}, **waiting)
    if not waiting:
        wait_until("text flows", lambda: shared.client.xlen(job_keys(result.id).log) > 1)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=GET_S)
    assert jobs.status(result.id).outcome == "cancelled"


def test_a_group_that_is_revoked_cancels_all_its_jobs(app: LongstreamApp) -> None:
    later = [generate.s(prompt(), model=PLAIN).set(countdown=600) for _ in range(2)]
    results = group(later)()
    results.revoke()
    assert {jobs.status(result.id).outcome for result in results} == {"cancelled"}


def test_what_follows_a_cancelled_job_is_revoked_too(app: LongstreamApp) -> None:
    first = generate.s(prompt(), model=PLAIN).set(countdown=600)
    last = chain(first, generate.s(model=PLAIN))()
    jobs.cancel(last.parent.id)
    with pytest.raises(TaskRevokedError):
        AsyncResult(last.id, app=app).get(timeout=GET_S)


@pytest.mark.parametrize("model", ["sim:500", "sim:length"])
def test_a_chord_with_a_failing_job_fails(app: LongstreamApp, model: str) -> None:
    header = [generate.s(prompt(), model=PLAIN), generate.s(prompt(), model=model)]
    body = chord(header)(generate.si("Never asked.", model=PLAIN))
    with pytest.raises(ChordError, match="JobFailed"):
        AsyncResult(body.id, app=app).get(timeout=GET_S)
    with pytest.raises(JobFailed):
        body.get(timeout=GET_S)


def test_a_chord_with_a_cancelled_job_fails(app: LongstreamApp) -> None:
    job_id = str(uuid.uuid4())
    waits = generate.s(prompt(), model=PLAIN).set(countdown=600, task_id=job_id)
    body = chord([generate.s(prompt(), model=PLAIN), waits])(generate.si("Never.", model=PLAIN))
    jobs.cancel(job_id)
    with pytest.raises(ChordError, match="cancelled"):
        AsyncResult(body.id, app=app).get(timeout=GET_S)
