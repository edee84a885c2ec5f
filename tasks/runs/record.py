"""What a run is, in the store: its jobs, its files and how it is to be delivered.

The record is written before the first job is submitted and names every job there will be, so a run
whose command died at any point can be taken up. It holds no text: those are in the jobs. What only
means something where the files are, the root and the host, is in it as well, to tell a resume in
another place from one in the same.

`Journal` knows what the run has written. It is told before a file is replaced, so after a crash
between the two the file is either as it was sent or as the journal says, and nobody else's.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import redis
from msgspec.structs import replace

from tasks.edits.source import SourceFile
from worker.job import listing
from worker.job.routing import Choice
from worker.job.terms import USUAL, Terms
from worker.store.keys import run_keys

How = Literal["diff", "apply", "out", "patch", "branch"]


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of the changes. `to`: the directory, file or branch; `check`: a command that
    must succeed on them."""

    how: How = "diff"
    to: str = ""
    force: bool = False
    check: str = ""
    check_s: float = 600.0


class SentFile(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was sent."""

    path: str
    sha256: str
    size: int


class SentJob(msgspec.Struct, frozen=True, array_like=True):
    id: str
    files: tuple[SentFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    root: str
    host: str
    model: str
    effort: str | None
    jobs: tuple[SentJob, ...]
    delivery: Delivery
    terms: Terms = USUAL
    chosen: Choice | None = None

    @property
    def files(self) -> int:
        return sum(len(job.files) for job in self.jobs)

    def terms_of(self, job_id: str) -> Terms:
        """The terms of one job. What the run may cost is divided by the size of what is sent, so
        that all its jobs together stay below it, whoever runs them and in whatever order."""
        limit = self.terms.max_cost_usd
        if limit is None:
            return self.terms
        sizes = {job.id: 1 + sum(file.size for file in job.files) for job in self.jobs}
        return replace(self.terms, max_cost_usd=limit * sizes[job_id] / sum(sizes.values()))

    def is_here(self) -> bool:
        """True where the files lie that were sent."""
        return self.host == socket.gethostname() and Path(self.root).is_dir()


def run_of(
    run_id: str,
    groups: Sequence[Sequence[SourceFile]],
    root: Path,
    *,
    model: str,
    effort: str | None,
    delivery: Delivery,
    terms: Terms = USUAL,
    chosen: Choice | None = None,
) -> Run:
    """One job for each group. A run of one job has its id."""
    several = len(groups) > 1
    return Run(
        id=run_id,
        root=str(root),
        host=socket.gethostname(),
        model=model,
        effort=effort,
        delivery=delivery,
        terms=terms,
        chosen=chosen,
        jobs=tuple(
            SentJob(
                f"{run_id}-{number}" if several else run_id,
                tuple(SentFile(file.path, file.sha256, file.size) for file in group),
            )
            for number, group in enumerate(groups, 1)
        ),
    )


def store_run(client: redis.Redis, run: Run, age_s: int) -> None:
    client.set(run_keys(run.id).record, msgspec.json.encode(run), ex=age_s)


def find_run(client: redis.Redis, run_id: str) -> Run | None:
    stored: Any = client.get(run_keys(run_id).record)
    return None if stored is None else msgspec.json.decode(stored, type=Run)


def starting_with(client: redis.Redis, prefix: str) -> Run | None:
    """The one run whose id begins like this; None when there is none, or several are."""
    if not prefix.strip():
        return None
    if (run := find_run(client, prefix)) is not None:
        return run
    runs = list(islice(_runs_of(client, prefix), 2))
    return runs[0] if len(runs) == 1 else None


def _runs_of(client: redis.Redis, prefix: str) -> Iterator[Run]:
    """The runs whose ids begin like this, by their jobs."""
    tried: set[str] = set()
    for name in listing.starting_with(client, prefix):
        # The jobs of a run have its id and a number, a single job has its id alone.
        for run_id in (name.rpartition("-")[0], name):
            if run_id in tried or not run_id.startswith(prefix):
                continue
            tried.add(run_id)
            if (run := find_run(client, run_id)) is not None:
                tried |= {job.id for job in run.jobs}
                yield run


class Journal:
    """The files one run has written."""

    def __init__(self, client: redis.Redis, run_id: str, age_s: int) -> None:
        self._client = client
        self._keys = run_keys(run_id)
        self._age_s = age_s
        stored: Any = client.hgetall(self._keys.written)
        self._written = {
            path.decode("utf-8", "surrogateescape"): frozenset(json.loads(sums))
            for path, sums in stored.items()
        }

    def sums(self, path: str) -> frozenset[str]:
        """Of every content the run has put there, or was about to."""
        return self._written.get(path, frozenset())

    def intend(self, path: str, sha256: str) -> None:
        """The file is about to get this content."""
        self._written[path] = self.sums(path) | {sha256}
        name = path.encode("utf-8", "surrogateescape")
        with self._client.pipeline() as pipe:
            pipe.hset(self._keys.written, name, json.dumps(sorted(self._written[path])))
            pipe.expire(self._keys.written, self._age_s)
            pipe.expire(self._keys.record, self._age_s)
            pipe.execute()

    def paths(self) -> Iterable[str]:
        return self._written
