"""Publishing a granted job: the ordinary Celery message, to one worker's own queue.

The arguments stay in the job record, with what follows the job and its arguments; so no prompt
passes through the broker. The headers say which lease the message belongs to.
"""

from __future__ import annotations

from typing import Any

import redis
import structlog
from celery import Celery

from settings.errors import LongstreamError
from worker.admission import line
from worker.admission.line import Lease
from worker.messages.message import Message
from worker.seeing.tracing import Attributes, granting
from worker.store.keys import direct_queue, job_keys

LEASE_HEADER = "longstream_lease"
POOL_HEADER = "longstream_pool"
KEY_HEADER = "longstream_key"
EXPIRES_HEADER = "longstream_expires"

#: A message is worth nothing when the hand-off time of its lease is over, in seconds beyond that.
_QUEUE_KEPT_S = 60

_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}

_log = structlog.get_logger()


class TaskLacking(LongstreamError):
    """A job's task is defined in code that this worker was not started with."""


def _knows(app: Celery, task: str) -> bool:
    """A worker has imported its tasks when it starts; another process may not have yet."""
    if task not in app.tasks:
        app.loader.import_default_modules()
    return task in app.tasks


def publish(app: Celery, client: redis.Redis, worker: str, lease: Lease) -> None:
    """Publish the job's message, or settle a lease whose job has no record any more. Raises
    TaskLacking."""
    stored = client.hget(job_keys(lease.job_id).record, "message")
    if stored is None:
        _log.warning("job.without_record", job=lease.job_id)
        line.run(client, line.settle(lease, back=False))
        return
    assert isinstance(stored, bytes)
    message = Message.load(stored)
    if not _knows(app, message.headers["task"]):
        # Celery would throw the message away, and fail a job that another worker can run.
        raise TaskLacking(
            f"this worker has no task {message.headers['task']}: start it with the code that "
            "defines it; the job waits for a worker that has"
        )
    attributes: Attributes = {
        "longstream.job": lease.job_id,
        "longstream.lease": lease.number,
        "longstream.worker": worker,
        "longstream.key": lease.key,
    }
    headers = _headers(message, lease)
    with granting(app.longstream.tracing, headers, attributes):
        _send(app, worker, headers, message)


def _headers(message: Message, lease: Lease) -> dict[str, Any]:
    return message.headers | {
        LEASE_HEADER: lease.number,
        POOL_HEADER: lease.pool,
        KEY_HEADER: lease.key,
        # Celery would drop an expired message, and kill what runs too long, past the lease.
        EXPIRES_HEADER: message.headers.get("expires"),
        "expires": None,
        "timelimit": [None, None],
        "argsrepr": "()",
        "kwargsrepr": "{}",
    }


def _send(app: Celery, worker: str, headers: dict[str, Any], message: Message) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        producer.publish(
            [[], {}, _NOTHING_FOLLOWS],
            exchange="",
            routing_key=direct_queue(worker),
            serializer="json",
            headers=headers,
            retry=True,
            retry_policy=app.conf.task_publish_retry_policy,
            **message.properties,
        )
        if hasattr(producer.channel, "conn_or_acquire"):
            # Whoever is told to clear up after a dead worker may die of the same fault.
            kept_s = int(app.longstream.worker.handoff_s) + _QUEUE_KEPT_S
            producer.channel.client.expire(direct_queue(worker), kept_s)
