"""What the dead leave in the broker, and kombu leaves there for a day or for ever.

Only with Redis as the broker; others look after their consumers themselves.
"""

from __future__ import annotations

import json
import time
from typing import Any

import redis
from celery import Celery


def discard(app: Celery, queue: str) -> None:
    """Delete the queue of a worker that is gone; its leases are in the line again."""
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        channel.queue_delete(queue)
        if hasattr(channel, "conn_or_acquire"):
            with channel.conn_or_acquire() as broker:
                _delete(channel, broker, queue)


def _delete(channel: Any, broker: redis.Redis, queue: str) -> None:
    """kombu deletes the keys of a queue only where it was bound: in the worker that is gone. And
    what that had fetched and not begun would come back a day later, to nobody's queue."""
    broker.delete(*(channel._q_for_pri(queue, step) for step in channel.priority_steps))
    for tag, stored in broker.hscan_iter(channel.unacked_key):
        if json.loads(stored)[2] == queue:
            broker.zrem(channel.unacked_index_key, tag)
            broker.hdel(channel.unacked_key, tag)


def revive(app: Celery, older_than_s: float) -> int:
    """Put messages back into the shared queue that were fetched so long ago and never acknowledged;
    how many. That takes a moment: who fetched them is dead, or can not reach the store. Another
    copy of one does no harm, since its job has its id.
    """
    found = 0
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        if not hasattr(channel, "conn_or_acquire"):
            return 0
        with channel.conn_or_acquire() as broker:
            upto = time.time() - older_than_s
            for tag in broker.zrangebyscore(channel.unacked_index_key, "-inf", upto):
                stored = broker.hget(channel.unacked_key, tag)
                if stored is not None and json.loads(stored)[2] == app.conf.task_default_queue:
                    channel.qos.restore_by_tag(tag, broker)
                    found += 1
    return found
