"""Limits configured twice too high: what is learned from the provider's refusals alone.

The provider is the simulator's judge, with sliding windows and without headers: it says which limit
was hit and how long to wait, nothing else.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any

import redis

from tasks.local.simulator.limits import Allowed, Window
from tests.benchmarks.line_load.accuracy import WINDOW_S
from tests.benchmarks.line_load.workers import POOL, Load, settings_of
from tests.harness.valkey import Valkey
from worker.admission import answers, line
from worker.admission.line import Lease, Spent
from worker.admission.tickets import Ticket
from worker.log.entries import Tokens
from worker.steps.feeder import Feeder
from worker.store.connections import connect
from worker.store.keys import pool_keys
from worker.upstream.failures import failure_of_answer

REQUESTS_PER_MINUTE = 600


@dataclass(frozen=True, slots=True)
class Recovery:
    """`used` of the true limit, in whole windows of the second half; refusals of the whole run."""

    used: float
    refusals_per_success: float
    refusals: int


class Provider:
    """Answers every grant at once: served, or refused until the window has room."""

    def __init__(self, load: Load) -> None:
        self._settings = settings_of(load)
        share = WINDOW_S / 60
        allowed = Allowed(secrets=(), requests=int(REQUESTS_PER_MINUTE * share))
        self._windows = {name: Window(allowed, WINDOW_S) for name in load.accounts}
        self.served: list[float] = []
        self.refused: list[float] = []
        self._lock = threading.Lock()

    def answer(self, client: redis.Redis, lease: Lease) -> None:
        stored: Any = client.hget(pool_keys(POOL).held, lease.job_id)
        line.run(client, line.start(lease, json.loads(stored)["worker"], "r", lease_ms=3_600_000))
        now = time.monotonic()
        with self._lock:
            reason, wait_s = self._windows[lease.key].wait(1, now)
            (self.refused if reason else self.served).append(now)
            if not reason:
                self._windows[lease.key].take(1, now)
                self._windows[lease.key].seen.streams -= 1
        if not reason:
            used = Tokens(input=500, output=500)
            line.run(client, line.settle(lease, back=False, spent=Spent(used, "answered")))
            return
        body = json.dumps({"error": {"message": f"Rate limit reached: {reason}.", "code": None}})
        headers = {"retry-after-ms": str(int(wait_s * 1000) + 1)}
        failure = failure_of_answer(429, headers, body.encode())
        rule = answers.ruling(failure)
        assert rule is not None
        line.run(client, answers.answer(self._settings, lease, rule, failure))
        line.run(client, line.settle(lease, back=True, spent=Spent(Tokens(), "refused")))


def recovery(valkey: Valkey, seconds: float) -> Recovery:
    accounts: dict[str, dict[str, Any]] = {
        f"a{number}": {"requests_per_minute": 2 * REQUESTS_PER_MINUTE, "refill": "slices"}
        for number in range(4)
    }
    load = Load(url=valkey.url, accounts=accounts, concurrency=200)
    provider = Provider(load)
    with connect(valkey.url) as client:
        client.flushall()
        ticket = Ticket(tenant="t", priority="normal", model="m", kind="k", prompt=500, cap=500)
        for number in range(int(len(accounts) * REQUESTS_PER_MINUTE * seconds / 60 * 1.5)):
            line.run(client, line.enqueue(POOL, f"j{number}", ticket))
    feeder = Feeder(
        settings_of(load),
        "w1",
        publish=provider.answer,
        cancel=lambda _: None,
        close=lambda _: None,
        discard=lambda _: None,
        revive=lambda _: 0,
    )
    began = time.monotonic()
    feeder.start()
    time.sleep(seconds)
    feeder.close()
    judged_s = seconds / 2 // WINDOW_S * WINDOW_S
    late = [at for at in provider.served if 0 < began + seconds - at <= judged_s]
    possible = len(accounts) * REQUESTS_PER_MINUTE / 60 * judged_s
    return Recovery(
        used=len(late) / possible,
        refusals_per_success=len(provider.refused) / len(provider.served),
        refusals=len(provider.refused),
    )
