"""Submitting a run, and finding everything of one that was submitted before.

Every step can be repeated: the record first, which names all jobs, then each job under its own id.
A run whose command died on the way is completed from the disk, as far as the files are still what
was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
import redis

from settings.errors import LongstreamError
from tasks import jobs
from tasks.edits.disk import read_regular
from tasks.edits.paths import PathRefused, locate
from tasks.edits.source import SourceFile, source_file
from tasks.kinds import REFACTOR, sources_of
from tasks.runs.record import (
    Delivery,
    Run,
    SentFile,
    find_run,
    run_of,
    starting_with,
    store_run,
)
from worker.errors import UnknownJob
from worker.store.keys import job_keys


class Found(msgspec.Struct, frozen=True):
    """Everything of a run: the texts of its files, and of the jobs that can not be submitted any
    more, why."""

    run: Run
    instruction: str
    sources: Mapping[str, SourceFile]
    lost: Mapping[str, str] = {}


def begin(
    client: redis.Redis,
    run: Run,
    groups: Sequence[Sequence[SourceFile]],
    instruction: str,
    age_s: int,
) -> Found:
    """Store the run and submit its jobs. Raises LongstreamError when one of their ids is taken."""
    _refuse_taken(client, run)
    store_run(client, run, age_s)
    ids = [job.id for job in run.jobs]
    _submit(run, list(zip(ids, groups, strict=True)), instruction)
    return Found(run, instruction, {file.path: file for group in groups for file in group})


def _refuse_taken(client: redis.Redis, run: Run) -> None:
    """The jobs of run `a` are `a-1`, `a-2`, ...: with an id of the user's choice they may be those
    of others, and the same id is the same job."""
    with client.pipeline(transaction=False) as pipe:
        for job in run.jobs:
            keys = job_keys(job.id)
            pipe.exists(keys.record, keys.tombstone)
        taken = pipe.execute()
    for job, there in zip(run.jobs, taken, strict=True):
        if there:
            raise LongstreamError(f"job {job.id} is there already: choose another --id")


def find(client: redis.Redis, run_id: str, root: Path, *, exact: bool = False) -> Found:
    """A run by its id or how that begins, or a single job as a run of its own. What was not
    submitted is submitted now, from its root, or in another place from `root`. Raises UnknownJob,
    or LongstreamError for a job that is no refactor."""
    run = find_run(client, run_id) if exact else starting_with(client, run_id)
    if run is None:
        return _single(run_id if exact else jobs.find(run_id, "run or job"), root)
    known: dict[str, tuple[list[SourceFile], str]] = {}
    for job in run.jobs:
        try:
            known[job.id] = submitted(job.id)
        except UnknownJob:
            continue
    if not known:
        raise UnknownJob(f"nothing of run {run_id} was submitted, or all is past retention")
    instruction = next(iter(known.values()))[1]
    sources = [file for files, _ in known.values() for file in files]
    lost: dict[str, str] = {}
    place = Path(run.root) if run.is_here() else root
    for job in run.jobs:
        if job.id not in known:
            try:
                files = [_as_it_was(file, place) for file in job.files]
            except LongstreamError as problem:
                lost[job.id] = f"was never sent: {problem}"
                continue
            _submit(run, [(job.id, files)], instruction)
            sources += files
    return Found(run, instruction, {file.path: file for file in sources}, lost)


def submitted(job_id: str) -> tuple[list[SourceFile], str]:
    """The files and the instruction of a refactor job."""
    task, args, kwargs = jobs.arguments(job_id)
    if task != REFACTOR.task:
        raise LongstreamError(f"job {job_id} is no refactor job: longstream tail {job_id}")
    named = dict(zip(("files", "instruction"), args, strict=False)) | kwargs
    return sources_of(named["files"]), named["instruction"]


def _submit(run: Run, groups: Iterable[tuple[str, Sequence[SourceFile]]], instruction: str) -> None:
    """Submit jobs by their ids; one that is there already changes nothing."""
    calls = [
        {
            "job_id": job_id,
            "terms": run.terms_of(job_id),
            "files": [msgspec.to_builtins(file) for file in files],
            "instruction": instruction,
            "model": run.model,
            "effort": run.effort,
        }
        for job_id, files in groups
    ]
    for _ in jobs.submit_many(REFACTOR.task, calls, priority="normal", chosen=run.chosen):
        pass


def _single(job_id: str, root: Path) -> Found:
    files, instruction = submitted(job_id)
    run = run_of(job_id, [files], root, model="", effort=None, delivery=Delivery())
    return Found(run, instruction, {file.path: file for file in files})


def _as_it_was(file: SentFile, root: Path) -> SourceFile:
    try:
        data, _ = read_regular(locate(root, file.path), file.size + 1)
    except FileNotFoundError:
        raise LongstreamError(f"{file.path} is not there any more") from None
    except PathRefused as refused:
        raise LongstreamError(f"{file.path} {refused}") from None
    if sha256(data).hexdigest() != file.sha256:
        raise LongstreamError(f"{file.path} has changed since")
    return source_file(file.path, data)
