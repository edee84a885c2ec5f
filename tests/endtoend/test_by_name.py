"""Messages that never saw this package: sent by name, from any Celery client, or by hand."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import kombu
import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult

from settings.errors import LongstreamError
from tasks import jobs
from tests.endtoend.test_canvas import GET_S, PLAIN, prompt, requests
from tests.harness.celery_app import hang_up
from tests.harness.cluster import Cluster, read
from tests.harness.waiting import wait_until
from worker.app import LongstreamApp
from worker.job.cancel import Cancelled
from worker.job.submission import Submission
from worker.job.submitting import submit
from worker.messages.message import plain_message
from worker.store.keys import direct_queue, job_keys, pool_keys

# Celery stores results with a command that redis-py has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")


@pytest.fixture
def foreign(shared: Cluster) -> Iterator[Celery]:
    """A client that knows a broker, a name, and nothing of longstream."""
    url = shared.valkey.url.replace("unix://", "redis+socket://")
    client = Celery("foreign", broker=url, backend=url, set_as_current=False)
    yield client
    hang_up(client)


def send_raw(
    cluster: Cluster,
    queue: str,
    body: Any,
    headers: dict[str, Any],
    properties: dict[str, Any] | None = None,
) -> None:
    url = cluster.valkey.url.replace("unix://", "redis+socket://")
    with kombu.Connection(url) as connection, connection.Producer(serializer="json") as producer:
        producer.publish(
            body, exchange="", routing_key=queue, headers=headers, **(properties or {})
        )


def test_a_task_sent_by_name_runs_once(
    app: LongstreamApp, shared: Cluster, foreign: Celery
) -> None:
    with requests(shared) as made:
        sent = foreign.send_task(
            "tasks.generate", args=[prompt()], kwargs={"model": PLAIN}, queue="longstream"
        )
        text = sent.get(timeout=GET_S)
    (request,) = made
    assert text == request["visible"] == jobs.result(sent.id)
    assert read(shared.client, sent.id)[0] == text


def test_a_task_sent_by_name_with_a_countdown_runs(app: LongstreamApp, foreign: Celery) -> None:
    sent = foreign.send_task(
        "tasks.generate", [prompt()], {"model": PLAIN}, queue="longstream", countdown=0.5
    )
    assert sent.get(timeout=GET_S) == jobs.result(sent.id)


def test_a_task_sent_by_name_for_later_waits_in_the_line(
    app: LongstreamApp, shared: Cluster, foreign: Celery
) -> None:
    sent = foreign.send_task(
        "tasks.generate", [prompt()], {"model": PLAIN}, queue="longstream", countdown=600
    )
    delayed = pool_keys("simulator").delayed
    due = wait_until("it is in the line", lambda: shared.client.zscore(delayed, sent.id))
    seconds, _ = shared.client.time()
    assert 590 < due / 1000 - seconds <= 601
    wait_until("it is acknowledged", lambda: not shared.client.exists("unacked"))
    assert jobs.cancel(sent.id) is Cancelled.DONE


@pytest.mark.slow
def test_a_task_whose_worker_died_before_it_was_in_the_line_runs(
    app: LongstreamApp, shared: Cluster
) -> None:
    """What is left of it is what the broker keeps of unacknowledged messages."""
    job_id = str(uuid.uuid4())
    message = plain_message("tasks.generate", job_id, [prompt()], {"model": PLAIN})
    body = base64.b64encode(json.dumps(message.body).encode()).decode()
    delivery = {"exchange": "", "routing_key": "longstream"}
    properties = {"delivery_info": delivery, "delivery_tag": "t", "body_encoding": "base64"}
    raw = {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": message.headers,
        "properties": message.properties | properties,
    }
    shared.client.hset("unacked", "t", json.dumps([raw, "", "longstream"]))
    shared.client.zadd("unacked_index", {"t": time.time() - 90})
    assert AsyncResult(job_id, app=app).get(timeout=2 * GET_S) == jobs.result(job_id)


def test_what_is_linked_to_a_task_sent_by_name_follows(app: LongstreamApp, foreign: Celery) -> None:
    follower = foreign.signature("tasks.generate", kwargs={"model": PLAIN}, app=foreign)
    follower.set(task_id=str(uuid.uuid4()), queue="longstream")
    foreign.send_task(
        "tasks.generate", [prompt()], {"model": PLAIN}, queue="longstream", link=follower
    )
    assert AsyncResult(follower.options["task_id"], app=app).get(timeout=GET_S)


@pytest.mark.parametrize("protocol", ["first", "second", "least"])
def test_a_message_written_by_hand_runs_once(
    app: LongstreamApp, shared: Cluster, protocol: str
) -> None:
    job_id, args, kwargs = str(uuid.uuid4()), [prompt()], {"model": PLAIN}
    whole = plain_message("tasks.generate", job_id, args, kwargs)
    with requests(shared) as made:
        if protocol == "first":
            body = {"id": job_id, "task": "tasks.generate", "args": args, "kwargs": kwargs}
            send_raw(shared, "longstream", body, {})
        elif protocol == "second":
            send_raw(shared, "longstream", whole.body, whole.headers, whole.properties)
        else:
            headers = {"id": job_id, "task": "tasks.generate"}
            send_raw(shared, "longstream", [args, kwargs, {}], headers)
        text = AsyncResult(job_id, app=app).get(timeout=GET_S)
    assert [request["visible"] for request in made] == [text]


def test_the_same_message_twice_is_one_job(app: LongstreamApp, shared: Cluster) -> None:
    job_id = str(uuid.uuid4())
    message = plain_message("tasks.generate", job_id, [prompt()], {"model": PLAIN})
    with requests(shared) as made:
        send_raw(shared, "longstream", message.body, message.headers)
        send_raw(shared, "longstream", message.body, message.headers)
        AsyncResult(job_id, app=app).get(timeout=GET_S)
        consumed(app, shared)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ([" "], {}, "the prompt is empty"),
        (["x"], {"nonsense": 1}, "unexpected keyword argument 'nonsense'"),
        ([["not", "text"]], {}, "must be text"),
    ],
)
def test_a_bad_task_sent_by_name_fails_at_once(
    app: LongstreamApp, foreign: Celery, args: list[Any], kwargs: dict[str, Any], error: str
) -> None:
    sent = foreign.send_task("tasks.generate", args, kwargs, queue="longstream")
    with pytest.raises((LongstreamError, TypeError), match=error):
        AsyncResult(sent.id, app=app).get(timeout=GET_S)


def test_a_job_whose_task_this_worker_lacks_is_left_to_another(
    app: LongstreamApp, shared: Cluster
) -> None:
    """As while new code is rolled out."""
    job_id = str(uuid.uuid4())
    job = Submission(
        job_id=job_id,
        task="tasks.of_tomorrow",
        model=PLAIN,
        pool="simulator",
        label="new",
        message=plain_message("tasks.of_tomorrow", job_id, [], {}),
    )
    submit(shared.client, job)
    wait_until("it waits", lambda: shared.client.zscore(pool_keys("simulator").delayed, job_id))
    assert "this worker has no task tasks.of_tomorrow" in shared.log()
    assert AsyncResult(job_id, app=app).state == "PENDING"
    record = jobs.status(job_id)
    assert (record.state, record.crashes, record.failures) == (jobs.State.WAITING, 0, 0)
    assert jobs.cancel(job_id) is Cancelled.DONE


def test_an_expired_task_is_revoked_and_asks_nothing(
    app: LongstreamApp, shared: Cluster, foreign: Celery
) -> None:
    from tasks.generate import generate

    with requests(shared) as made:
        result = generate.apply_async((prompt(),), {"model": PLAIN}, countdown=1, expires=0.2)
        with pytest.raises(TaskRevokedError):
            result.get(timeout=GET_S)
    assert made == []
    assert jobs.status(result.id).outcome == "expired"


def test_a_second_copy_of_a_granted_message_is_dropped(app: LongstreamApp, shared: Cluster) -> None:
    """Both while the first runs and after its lease is settled."""
    job_id, worker = str(uuid.uuid4()), shared.alive()[0]
    jobs.submit("tasks.generate", prompt(), model="sim:stall", job_id=job_id)
    wait_until("text flows", lambda: shared.client.xlen(job_keys(job_id).log) > 1)
    lease = json.loads(shared.client.hget(pool_keys("simulator").held, job_id) or b"")
    stored = jobs_message(shared, job_id)
    headers = stored[1] | {
        "longstream_lease": lease["lease"],
        "longstream_pool": "simulator",
        "longstream_key": lease["key"],
    }
    with requests(shared) as made:
        for _ in range(2):
            send_raw(shared, direct_queue(worker), [[], {}, stored[0][2]], headers)
        consumed(app, shared)
        assert jobs.status(job_id).attempt == 1
        assert jobs.cancel(job_id) is Cancelled.STOPPING
        with pytest.raises(TaskRevokedError):
            AsyncResult(job_id, app=app).get(timeout=GET_S)
        before = everything_of(shared, job_id)
        held = pool_keys("simulator").held
        wait_until("it is settled", lambda: not shared.client.hexists(held, job_id))
        send_raw(shared, direct_queue(worker), [[], {}, stored[0][2]], headers)
        consumed(app, shared)
    assert everything_of(shared, job_id) == before
    assert made == []


def jobs_message(cluster: Cluster, job_id: str) -> Any:
    return json.loads(cluster.client.hget(job_keys(job_id).record, "message") or b"")


def everything_of(cluster: Cluster, job_id: str) -> list[Any]:
    keys = job_keys(job_id)
    result = cluster.client.get(f"celery-task-meta-{job_id}")
    return [cluster.client.hgetall(keys.record), cluster.client.xrange(keys.log), result]


def consumed(app: LongstreamApp, cluster: Cluster) -> None:
    """Everything sent to the worker before has been taken up, and what it began has been done."""
    from worker.doctor.probe import consumes

    (worker,) = cluster.alive()
    for _ in range(2):
        assert consumes(app, cluster.client, worker, 20)
