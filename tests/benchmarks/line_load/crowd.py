"""A crowd: 1,600 waiting jobs and eight sleeping workers; and 10,000 waiting jobs."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from settings.model import Account
from tests.benchmarks.line_load.accuracy import TENANTS
from tests.benchmarks.line_load.workers import POOL, Load, Processes
from tests.harness.lines import Line
from tests.harness.valkey import Valkey
from worker.admission import line
from worker.admission.tickets import Estimate, Ticket
from worker.job.submission import Submission
from worker.job.submitting import submit, submit_all
from worker.messages.message import plain_message
from worker.store.connections import connect
from worker.store.keys import pool_keys

#: Together 144 requests a second, of which the burst keeps a part back.
REQUESTS_PER_MINUTE = 1080

#: Jobs of a list that are submitted together, as `jobs.submit_many` does.
TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Herd:
    """`ideal_s` is what the limits allow at best; `first` the tenants of the first 400 grants."""

    calls_per_grant: float
    took_s: float
    ideal_s: float
    first: dict[str, int]


@dataclass(frozen=True, slots=True)
class Backlog:
    """`grant_us`: one grant of one job, with so many waiting and with a hundred."""

    submits_per_s: float
    together_per_s: float
    bytes_in_line: float
    bytes_with_record: float
    cancel_us: float
    grant_us: float
    grant_us_of_few: float


def herd(valkey: Valkey, jobs: int) -> Herd:
    """Eight workers with room for everything ask until nobody waits."""
    accounts: dict[str, dict[str, Any]] = {
        f"a{number}": {"requests_per_minute": REQUESTS_PER_MINUTE} for number in range(8)
    }
    with connect(valkey.url) as client:
        client.flushall()
        for tenant, share in TENANTS.items():
            ticket = Ticket(
                tenant=tenant, priority="normal", model="m", kind="k", prompt=500, cap=500
            )
            for number in range(int(jobs * share)):
                line.run(client, line.enqueue(POOL, f"{tenant}-{number}", ticket))
        waiting = client.zcard(pool_keys(POOL).normal)
        client.config_resetstat()
        with tempfile.TemporaryDirectory() as folder:
            processes = Processes(Path(folder), Load(url=valkey.url, accounts=accounts), 8)
            deadline = time.monotonic() + 10 * waiting / 100
            while client.zcard(pool_keys(POOL).normal) and time.monotonic() < deadline:
                time.sleep(0.02)
            stats: Any = client.info("commandstats")
            grants = sorted(processes.stop(), key=lambda grant: grant.at)
    rate = len(accounts) * REQUESTS_PER_MINUTE / 60
    first = Counter(grant.job.partition("-")[0] for grant in grants[:400])
    return Herd(
        calls_per_grant=(stats["cmdstat_evalsha"]["calls"] - len(grants)) / len(grants),
        took_s=grants[-1].at - grants[0].at,
        ideal_s=(waiting - 0.05 * 60 * rate) / (0.95 * rate),
        first=dict(first),
    )


def backlog(valkey: Valkey, jobs: int) -> Backlog:
    """Submit so many, cancel some of them, and let a new worker ask."""
    with connect(valkey.url) as client:
        client.flushall()
        few = Line(client, {"a": Account(name="a")})
        few.submit(*(f"f{number}" for number in range(100)))
        grant_us_of_few = _grant_us(few)
        client.flushall()
        in_line = _bytes(client)
        few.submit(*(f"job-{number:08}" for number in range(jobs)))
        in_line = (_bytes(client) - in_line) / jobs
        client.flushall()
        whole = _bytes(client)
        began = time.perf_counter()
        for number in range(jobs):
            submit(client, _job(number))
        rate = jobs / (time.perf_counter() - began)
        whole = (_bytes(client) - whole) / jobs
        client.flushall()
        began = time.perf_counter()
        for first in range(0, jobs, TOGETHER):
            submit_all(client, [_job(n) for n in range(first, min(jobs, first + TOGETHER))])
        together = jobs / (time.perf_counter() - began)
        client.config_resetstat()
        for number in range(0, jobs, jobs // 200):
            assert line.run(client, line.withdraw(POOL, f"job-{number:08}")) == b"waiting"
        stats: Any = client.info("commandstats")
        cancel_us = stats["cmdstat_evalsha"]["usec_per_call"]
        grant_us = _grant_us(few)
    return Backlog(rate, together, in_line, whole, cancel_us, grant_us, grant_us_of_few)


def _job(number: int) -> Submission:
    job_id = f"job-{number:08}"
    return Submission(
        job_id=job_id,
        task="tasks.generate",
        model="gpt-5.5-codex",
        pool=POOL,
        label="generate",
        message=plain_message("tasks.generate", job_id, ["x" * 200], {"model": "gpt-5.5-codex"}),
        estimate=Estimate(prompt=60),
    )


def _grant_us(waiting: Line) -> float:
    costs = []
    for number in range(1, 40):
        waiting.client.config_resetstat()
        assert len(waiting.ask(slots=number).leases) == 1
        stats: Any = waiting.client.info("commandstats")
        costs.append(float(stats["cmdstat_evalsha"]["usec_per_call"]))
    return statistics.median(costs)


def _bytes(client: Any) -> float:
    return float(client.info("memory")["used_memory"])
