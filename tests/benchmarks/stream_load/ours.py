"""The product: the worker's real engine, running real attempts on real leases, without Celery.

Jobs are submitted, granted, started, claimed, streamed, sealed and settled as in a worker; only
the message that carries a granted job from the line to the engine is left out, and the heartbeat,
since leases last longer than the run. A job that ends makes room for a new one.

    python -m tests.benchmarks.stream_load.ours REDIS_SOCKET PROVIDER_URL STREAMS [ROOTS]
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from typing import Any

import structlog

from settings.model import Account, Key, Pool, Settings, WorkerSettings
from settings.secret import Secret
from tests.benchmarks.stream_load.contender import job_of
from worker.admission import line
from worker.admission.line import Lease
from worker.admission.tickets import Estimate
from worker.attempt.reading import Whole
from worker.attempt.work import Sealed, Work
from worker.engine import Engine
from worker.job.submission import Submission
from worker.job.submitting import submit
from worker.messages.message import plain_message
from worker.outcomes import Outcome
from worker.store.connections import connect
from worker.upstream.request import Message, Request

REQUEST = Request(model="m", messages=(Message("user", "?"),))
_DAY_S = 86_400


def settings_for(redis_path: str, provider: str, *roots: str) -> Settings:
    key = Key(alias="k", provider="simulator", base_url=provider, secret=Secret("s"), account="k")
    return Settings(
        redis_url=f"unix://{redis_path}",
        ca_bundle=roots[0] if roots else None,
        pools={"p": Pool(name="p", keys=(key,))},
        accounts={"k": Account(name="k", streams=100_000)},
        worker=WorkerSettings(concurrency=2000, lease_s=_DAY_S, handoff_s=_DAY_S),
    )


class Jobs:
    """Keeps so many streams running."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = connect(str(settings.redis_url))
        self._engine = Engine(settings, "bench")
        self._engine.start()
        self._loop: asyncio.AbstractEventLoop = self._engine._loop
        self._running: set[asyncio.Task[None]] = set()
        self._asking = threading.Lock()

    def begin(self, numbers: range) -> None:
        """The first job of each stream."""
        for lease in self._granted([job_of(number, 0) for number in numbers]):
            self._loop.call_soon_threadsafe(self._run, lease)

    def _granted(self, jobs: list[str]) -> tuple[Lease, ...]:
        for job in jobs:
            message = plain_message("t", job, [], {})
            asked = Submission(
                job_id=job, task="t", model="m", pool="p", label="", message=message,
                estimate=Estimate(prompt=1, cap=1000),
            )  # fmt: skip
            submit(self._store, asked)
        pool, accounts = self._settings.pools["p"], self._settings.accounts
        leases: tuple[Lease, ...] = ()
        while len(leases) < len(jobs):
            call = line.grant(
                pool, accounts, "bench",
                slots=100_000, elsewhere=0, handoff_ms=_DAY_S * 1000, alive_ms=_DAY_S * 1000,
            )  # fmt: skip
            leases += line.granted("p", line.run(self._store, call)).leases
        return leases

    def _next(self, job: str) -> tuple[Lease, ...]:
        with self._asking:
            return self._granted([job])

    def _run(self, lease: Lease) -> None:
        task = self._loop.create_task(self._attempt(lease))
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def _attempt(self, lease: Lease) -> None:
        verdict: Any = await self._engine._run(
            Work(lease=lease, build=lambda: REQUEST, read=lambda: Whole(len))
        )
        if not isinstance(verdict, Sealed) or verdict.outcome is not Outcome.COMPLETED:
            raise RuntimeError(f"a job ended as {verdict}")
        await self._engine._settle(lease)
        stream, generation = map(int, lease.job_id[1:].split("x"))
        fresh = await asyncio.to_thread(self._next, job_of(stream, generation + 1))
        for each in fresh:
            self._run(each)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if (error := task.exception()) is not None:
            print(f"failed: {error!r}", file=sys.stderr, flush=True)


def main(redis_path: str, provider: str, streams: int, *roots: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    # As the worker's command does: what is loaded stays, and is no business of the collector.
    gc.freeze()
    jobs = Jobs(settings_for(redis_path, provider, *roots))
    jobs.begin(range(streams))
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
