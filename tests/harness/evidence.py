"""What a cluster can say about why a test failed in it, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.harness.cluster import Cluster
from worker.store.keys import JOBS, job_keys

_ASKED = ("state", "outcome", "reason", "attempt", "crashes", "failures", "why", "resume")
_JOBS = 40
_LINES = 60


@contextmanager
def explained(cluster: Cluster) -> Iterator[None]:
    """A failure in here says what became of the jobs, what was billed, and what the workers said
    of anything but a job that went well."""
    try:
        yield
    except AssertionError as failed:
        failed.add_note("\n".join([*_jobs(cluster), f"billed: {cluster.bill()}", *_said(cluster)]))
        raise


def _jobs(cluster: Cluster) -> list[str]:
    """Those that did not complete in one attempt."""
    found: Any = cluster.client.zrange(JOBS, 0, -1)
    lines = [_job(cluster, name.decode()) for name in found]
    return [line for line in lines if line][:_JOBS]


def _job(cluster: Cluster, name: str) -> str:
    raw: Any = cluster.client.hgetall(job_keys(name).record)
    record = {field.decode(): value.decode("utf-8", "replace") for field, value in raw.items()}
    if record.get("outcome") == "completed" and record.get("attempt") == "1":
        return ""
    lost = {field: value for field, value in record.items() if field.startswith(("spent", "crash"))}
    return f"{name}: { {field: record.get(field) for field in _ASKED} | lost }"[:1500]


def _said(cluster: Cluster) -> list[str]:
    lines = [line for line in cluster.log().splitlines() if '"level"' in line]
    return [line[:400] for line in lines if '"level": "info"' not in line][-_LINES:]
