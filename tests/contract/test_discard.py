"""What a dead worker leaves in the broker is removed by another process."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from settings import load
from tests.harness.celery_app import client_of
from tests.harness.valkey import Valkey
from worker.steps.broker import discard, revive
from worker.store.connections import connect
from worker.store.keys import direct_queue

QUEUE = direct_queue("w1@host")


@pytest.mark.parametrize("own", [True, False])
def test_the_queue_and_what_was_fetched_from_it_are_gone(
    valkey: Valkey, tmp_path: Path, own: bool
) -> None:
    environ = {"LONGSTREAM_REDIS_URL": valkey.url, "LONGSTREAM_SIMULATOR_URL": "http://127.0.0.1:1"}
    queue = QUEUE if own else direct_queue("w2@host")
    with connect(valkey.url) as client, client_of(load(environ, tmp_path)) as app:
        client.flushall()
        client.lpush(queue, "a message")
        client.hset("unacked", "tag", json.dumps([{"body": ""}, "", queue]))
        client.zadd("unacked_index", {"tag": time.time()})
        discard(app, QUEUE)
        assert client.exists(queue, "unacked", "unacked_index") == (0 if own else 3)


def test_what_a_dead_worker_had_fetched_by_name_comes_back(valkey: Valkey, tmp_path: Path) -> None:
    """Not what was fetched a moment ago, nor what belongs to a worker's own queue."""
    environ = {"LONGSTREAM_REDIS_URL": valkey.url, "LONGSTREAM_SIMULATOR_URL": "http://127.0.0.1:1"}
    message = {"body": "", "headers": {}, "properties": {"delivery_info": {}, "priority": 0}}
    with connect(valkey.url) as client, client_of(load(environ, tmp_path)) as app:
        client.flushall()
        for tag, queue, age_s in (
            ("a", "longstream", 90),
            ("b", "longstream", 1),
            ("c", QUEUE, 90),
        ):
            client.hset("unacked", tag, json.dumps([message, "", queue]))
            client.zadd("unacked_index", {tag: time.time() - age_s})
        assert revive(app, 60) == 1
        assert client.llen("longstream") == 1
        assert sorted(client.hkeys("unacked")) == [b"b", b"c"]
        assert revive(app, 60) == 0
