"""The health probe: a task that proves its worker consumes, instead of answering a ping.

A worker whose consumer is deaf still answers pings over another connection. So the probe takes
the way every job takes, through the worker's own queue, a pool thread and back to Redis.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import redis
from celery import Celery

from settings.model import Settings
from worker.app import app
from worker.store.connections import connect, now_ms
from worker.store.keys import direct_queue, pool_keys, probe_key

PROBE = "longstream.probe"
_KEPT_S = 60
_POLL_S = 0.05


@app.task(name=PROBE, ignore_result=True)
def probe(nonce: str) -> None:
    """Leave a sign under the nonce."""
    with connect(app.longstream.store_url) as client:
        client.set(probe_key(nonce), "1", ex=_KEPT_S)


def alive(client: redis.Redis, settings: Settings) -> list[str]:
    """The workers that were heard of lately, by name."""
    now = now_ms(client)
    names: set[str] = set()
    for pool in settings.pools:
        found: Any = client.zrangebyscore(pool_keys(pool).workers, now, "+inf")
        names |= {name.decode() for name in found}
    return sorted(names)


def consumes(celery: Celery, client: redis.Redis, worker: str, within_s: float) -> bool:
    """True when the worker ran a probe within that time."""
    nonce = secrets.token_hex(8)
    celery.send_task(
        PROBE, args=[nonce], exchange="", routing_key=direct_queue(worker), ignore_result=True
    )
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if client.exists(probe_key(nonce)):
            return True
        time.sleep(_POLL_S)
    return False
