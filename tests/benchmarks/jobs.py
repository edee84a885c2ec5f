"""Jobs through everything a deployment has: how soon, how many, and a thousand at once.

A real server, a real worker process under Celery, a provider that answers at once. (a) From submit
to the first delta in the log, on a warm stack, one job after another, by stage; the server's own
record of its commands says when each stage ended. (b) Jobs a second, when they are short and so
many are submitted at once. (c) A worker for up to a thousand tasks: how long it starts, how soon
all of them run, what memory they take.

    python tests/benchmarks/jobs.py [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.job_load.stages import STAGES, Watched, waited_for
from tests.benchmarks.stream_load.contender import Child, cpu_s, rss_bytes
from tests.harness.benchmark import Report, options, table, versions
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from worker.store.connections import connect
from worker.store.keys import direct_queue, job_keys

#: Jobs submitted at once, and tasks of one worker.
HEAPS, CROWDS = (150, 500, 1500), (100, 300, 1000)
_CONFIG = """
[[pools.simulator.keys]]
alias = "simulator"
provider = "simulator"
base_url = "{url}"
secret = "simulated"
"""


@contextmanager
def cluster(provider: str, *arguments: object) -> Iterator[tuple[Cluster, Child]]:
    """A server, and workers that are told to ask this provider."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Child(provider, *arguments)
        made = Cluster(Path(folder))
        try:
            made.configure(_CONFIG.replace("{url}", json.loads(asked.first)["url"]))
            yield made, asked
        finally:
            made.close()
            asked.stop()


def delays(jobs: int) -> dict[str, Any]:
    """(a)"""
    with cluster("job_load.provider") as (made, _):
        made.worker("--concurrency", "20")
        (worker,) = made.alive()
        queue = direct_queue(worker)
        for number in range(20):
            _ended(made, [made.submit("?", f"warm{number}")])
        with connect(made.valkey.url) as client:
            watched, found = Watched(client), []
            for number in range(jobs):
                watched.forget()
                began = time.time()
                job = made.submit("?", f"j{number}")
                found.append(waited_for(watched, job, queue, began))
                _ended(made, [job])
            watched.stop()
    totals = [sum(each.values()) for each in found]
    return {
        "jobs": jobs,
        "total_ms": _shares(totals),
        "stages_ms": {name: _shares([each[name] for each in found]) for name in STAGES},
    }


def throughput(jobs: int) -> dict[str, Any]:
    """(b)"""
    with cluster("job_load.provider") as (made, _):
        worker = made.worker("--concurrency", "100")
        _ended(made, [made.submit("?", f"warm{number}") for number in range(100)])
        before, began = cpu_s(worker.pid), time.monotonic()
        names = [made.submit("?", f"j{number}") for number in range(jobs)]
        submitted_s = time.monotonic() - began
        _ended(made, names)
        took_s = time.monotonic() - began
        cpu = cpu_s(worker.pid) - before
    return {
        "jobs": jobs,
        "jobs_per_s": jobs / took_s,
        "submits_per_s": jobs / submitted_s,
        "worker_cpu_ms_per_job": cpu / jobs * 1000,
        "worker_cores": cpu / took_s,
    }


def crowd(streams: int) -> dict[str, Any]:
    """(c)"""
    with cluster("stream_load.provider", 0) as (made, provider):
        began = time.monotonic()
        worker = made.worker("--concurrency", str(streams))
        started_s = time.monotonic() - began
        idle, start_cpu = rss_bytes(worker.pid), cpu_s(worker.pid)
        began = time.monotonic()
        for number in range(streams):
            made.submit("?", f"j{number}")
        submitted_s = time.monotonic() - began
        wait_until("all run", lambda: provider.ask()["open"] == streams, 120)
        running_s = time.monotonic() - began
        time.sleep(3)
        full = rss_bytes(worker.pid)
        threads = len(list(Path(f"/proc/{worker.pid}/task").iterdir()))
    return {
        "tasks": streams,
        "start_s": started_s,
        "start_cpu_s": start_cpu,
        "idle_mb": idle / 1e6,
        "full_mb": full / 1e6,
        "kb_per_task": (full - idle) / streams / 1000,
        "threads": threads,
        "submitted_s": submitted_s,
        "all_running_s": running_s,
    }


def page(figures: dict[str, Any]) -> str:
    """The report for people."""
    delay = figures["delays"]
    rows = [
        (name, *(f"{shares[share]:.2f}" for share in ("p50", "p99")))
        for name, shares in [*delay["stages_ms"].items(), ("in all", delay["total_ms"])]
    ]
    return "\n\n".join(
        [
            table(("submit to first delta, ms", "p50", "p99"), rows),
            *(
                f"{rate['jobs']} short jobs: {rate['jobs_per_s']:.0f} a second, of "
                f"{rate['submits_per_s']:.0f} submitted; {rate['worker_cpu_ms_per_job']:.2f} ms of "
                "CPU each in the worker"
                for rate in figures["throughput"]
            ),
            *(
                f"{many['tasks']} tasks in one worker: started in {many['start_s']:.1f} s, all run "
                f"{many['all_running_s']:.1f} s after the first submit; "
                f"{many['idle_mb']:.0f} MB idle, {many['full_mb']:.0f} MB with all, "
                f"{many['threads']} threads"
                for many in figures["crowd"]
            ),
        ]
    )


def main() -> int:
    chosen = options(__doc__ or "").parse_args()
    report = Report(
        benchmark="jobs",
        quick=chosen.quick,
        repetitions=1,
        versions=versions("celery", "kombu", "redis", "hiredis"),
    )
    report.figures = {
        "delays": delays(40 if chosen.quick else 200),
        "throughput": [throughput(jobs) for jobs in (HEAPS[:1] if chosen.quick else HEAPS)],
        "crowd": [crowd(tasks) for tasks in (CROWDS[:1] if chosen.quick else CROWDS)],
    }
    if chosen.json:
        print(report.as_json())
    else:
        print(page(report.figures), report.heading(), sep="\n\n")
    return 0


def _ended(made: Cluster, names: list[str]) -> None:
    """Waits until the jobs are over."""
    tombstones = [job_keys(name).tombstone for name in names]
    wait_until("all end", lambda: made.client.exists(*tombstones) == len(names), 120)


def _shares(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "p50": median(ordered) * 1000,
        "p99": ordered[round(last * 0.99)] * 1000,
        "max": ordered[-1] * 1000,
    }


if __name__ == "__main__":
    sys.exit(main())
