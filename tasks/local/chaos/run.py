"""One run: stage, jobs, readers and faults together, then the verdict."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tasks import current
from tasks.application import app
from tasks.kinds import GENERATE
from tasks.local.chaos import readers
from tasks.local.chaos.faults import strike
from tasks.local.chaos.plan import Blow, Job, Plan
from tasks.local.chaos.readers import Heard
from tasks.local.chaos.recovery import Recovery
from tasks.local.chaos.stage import Stage
from tasks.local.chaos.verdict import Facts, Verdict, judge
from tasks.submitting import submitted
from worker.doctor.probe import alive
from worker.job.submitting import submit
from worker.job.terms import OnInterrupt, Terms
from worker.log.stored import read_stored
from worker.store.connections import connect, connect_async
from worker.store.keys import job_keys
from worker.store.leftovers import Leftovers, leftovers

#: After the last fault, a reader must end at least this often, in seconds, until all have.
_CALM_S = 90.0
#: What ended jobs may still hold for a moment, while their workers settle.
_SETTLE_S = 30.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Report:
    injected: dict[str, int]
    jobs: int
    readers: int
    attempts: int
    seconds: float
    recovery: dict[str, dict[str, float]]
    verdict: Verdict


async def run(plan: Plan, state: Path, say: Callable[[str], None]) -> Report:
    """Raises ChaosError when the run itself fails; a broken promise is in the verdict."""
    began, stage = time.monotonic(), Stage(state)
    running = asyncio.current_task()
    assert running is not None
    # Whatever ends the run, what it started ends with it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        await stage.open(plan.workers)
        current.use(stage.settings)
        app.use(stage.settings)
        with connect(stage.url) as client:
            await stage.ready(lambda: alive(client, stage.settings))
            say(
                f"{plan.workers} workers are ready; {len(plan.jobs)} jobs, {len(plan.blows)} faults"
            )
            return await _Run(plan, stage, client, say).play(began)
    finally:
        await stage.close()


class _Run:
    def __init__(
        self, plan: Plan, stage: Stage, client: redis.Redis, say: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._client = client
        self._say = say
        self._recovery = Recovery(client)
        self._injected: Counter[str] = Counter()
        self._reading: list[asyncio.Task[Heard]] = []
        self._async = connect_async(stage.readers_url)

    async def play(self, began: float) -> Report:
        start = time.monotonic()
        async with asyncio.TaskGroup() as beside:
            supervising = beside.create_task(self._stage.supervise())
            async with asyncio.TaskGroup() as both:
                both.create_task(self._submit_all(start))
                both.create_task(self._strike_all(start))
            self._say("the last fault is over; waiting for jobs and readers")
            heard = await self._heard()
            supervising.cancel()
        await self._recovery.done()
        left = await self._settled()
        facts = [await asyncio.to_thread(self._facts, job) for job in self._plan.jobs]
        verdict = judge(facts, heard, await asyncio.to_thread(self._stage.ledger))
        verdict.leases += left.leases
        verdict.keys += left.keys
        await self._async.aclose()
        return Report(
            injected=dict(sorted(self._injected.items())),
            jobs=len(facts),
            readers=len(heard),
            attempts=sum(fact.attempts for fact in facts),
            seconds=round(time.monotonic() - began, 1),
            recovery=self._recovery.summary(),
            verdict=verdict,
        )

    async def _submit_all(self, start: float) -> None:
        chance = random.Random(len(self._plan.jobs))  # noqa: S311 - repeatable on purpose
        for job in self._plan.jobs:
            await asyncio.sleep(max(0.0, start + job.at_s - time.monotonic()))
            await self._submitted(job)
            for kind in readers.KINDS:
                reading = kind(self._async, job.id, random.Random(chance.random()))  # noqa: S311
                self._reading.append(asyncio.create_task(reading))

    async def _submitted(self, job: Job) -> None:
        """Under its id until it is known to have arrived, as a careful client does."""
        submission = submitted(
            self._stage.settings,
            GENERATE.task,
            (job.prompt,),
            {"model": job.model},
            job_id=job.id,
            terms=Terms(on_interrupt=OnInterrupt(job.policy)),
        )
        while True:
            try:
                with connect(self._stage.url) as client:
                    await asyncio.to_thread(submit, client, submission)
            except (redis.RedisError, OSError):
                await asyncio.sleep(_POLL_S)
            else:
                return

    async def _strike_all(self, start: float) -> None:
        async with asyncio.TaskGroup() as striking:
            for number, blow in enumerate(self._plan.blows, 1):
                await asyncio.sleep(max(0.0, start + blow.at_s - time.monotonic()))
                # Faults overlap, as they do elsewhere.
                striking.create_task(self._strike(blow))
                if number % 20 == 0:
                    upto = f"{number} of {len(self._plan.blows)} faults"
                    self._say(f"{upto}, {self._ended()} of {len(self._plan.jobs)} jobs ended")

    async def _strike(self, blow: Blow) -> None:
        try:
            hit = await strike(self._stage, self._client, self._recovery, blow)
        except (redis.RedisError, OSError):
            # Redis was away just then: another fault was faster.
            hit = False
        self._injected[blow.fault] += hit

    async def _heard(self) -> list[Heard]:
        done: set[asyncio.Task[Heard]] = set()
        pending = set(self._reading)
        while pending:
            more, pending = await asyncio.wait(
                pending, timeout=_CALM_S, return_when=asyncio.FIRST_COMPLETED
            )
            done |= more
            if not more:
                break
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        if pending:
            self._say(f"{len(pending)} readers have not ended")
        stuck = [Heard("?", "reader", wrong="it did not end in time") for _ in pending]
        return [task.result() for task in done] + stuck

    async def _settled(self) -> Leftovers:
        deadline = time.monotonic() + _SETTLE_S
        while True:
            left = await asyncio.to_thread(leftovers, self._client, self._stage.settings.pools)
            if not left or time.monotonic() > deadline:
                return left
            await asyncio.sleep(_POLL_S)

    def _ended(self) -> int:
        return sum(task.done() for task in self._reading) // len(readers.KINDS)

    def _facts(self, job: Job) -> Facts:
        keys = job_keys(job.id)
        told: Any = self._client.hmget(keys.record, "outcome", "attempt")
        log = read_stored(self._client.execute_command, keys.log)
        return Facts(job, (told[0] or b"").decode(), int(told[1] or 0), log)
