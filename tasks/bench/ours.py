"""This product as a contender, the whole way: submit, waiting line, worker, log, a live reader.

The reader is there from the submit on and goes to the end, so what it has is what a user would
have. Job ids are made of the run and the number: a submit that is repeated is the same job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import redis.asyncio

from settings.errors import LongstreamError
from tasks import jobs
from tasks.bench.book import Book
from tasks.bench.plan import MAX_OUTPUT_TOKENS, Task, Truth
from tasks.bench.sample import Sample, Verdict
from tasks.bench.watch import Watch, clock_in
from worker.log import reader
from worker.log.entries import Tokens
from worker.log.status import NO_WORKER
from worker.log.view import End, Status
from worker.outcomes import Outcome

#: Behind the jobs of people, when there are any.
_TENANT, _PRIORITY = "bench", "bulk"


class Ours:
    """`truth` None: nobody can tell what was meant. `say` gets a line a person must see."""

    def __init__(
        self,
        phase: str,
        model: str,
        client: redis.asyncio.Redis,
        book: Book,
        truth: Truth | None,
        say: Callable[[str], None],
    ) -> None:
        self._phase = phase
        self._model = model
        self._client = client
        self._run = book.header.run
        #: Noted by an earlier process of this run: their readers come late.
        self._late = {n for where, n in book.begun if where == phase}
        self._truth = truth
        self._say = say
        self._warned = False

    async def one(self, task: Task) -> Sample:
        job_id = f"bench-{self._run}-{self._phase}-{task.n}"
        watch, began = Watch(time.monotonic()), time.monotonic()
        try:
            await asyncio.to_thread(self._submit, job_id, task)
            end = await self._follow(job_id, watch)
            verdict, detail = await self._judged(task, watch.text, end)
            tokens, wasted = await self._paid(job_id, end)
        except LongstreamError as error:
            end, verdict, detail = None, Verdict.ERROR, str(error)
            tokens, wasted = None, Tokens()
        return Sample(
            phase=self._phase,
            n=task.n,
            kind=task.kind,
            effort=task.effort,
            verdict=verdict,
            detail=detail,
            attempts=end.attempts if end else 0,
            timed_out=watch.timed_out,
            cut=watch.cut,
            timed=task.n not in self._late,
            seconds=time.monotonic() - began,
            first_s=watch.first_s,
            first_visible_s=watch.first_visible_s,
            visible=watch.visible,
            thinking=watch.thinking,
            gaps=watch.gaps,
            bursts=watch.bursts,
            clusters=watch.clusters,
            characters=len(watch.text),
            tokens=tokens,
            wasted=wasted,
        )

    def _submit(self, job_id: str, task: Task) -> None:
        jobs.submit(
            "tasks.generate",
            task.prompt,
            job_id=job_id,
            tenant=_TENANT,
            priority=_PRIORITY,
            model=self._model,
            effort=task.effort,
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )

    async def _follow(self, job_id: str, watch: Watch) -> End:
        items: Any = reader.atail(self._client, job_id)
        async with aclosing(items):
            async for item in items:
                watch.take(item, time.monotonic())
                if isinstance(item, End):
                    return item
                if isinstance(item, Status) and NO_WORKER in item.detail and not self._warned:
                    self._warned = True
                    self._say(NO_WORKER)
        raise AssertionError("a followed job neither ended nor raised")

    async def _paid(self, job_id: str, end: End) -> tuple[Tokens | None, Tokens]:
        """What all attempts have used, and what of it came to nothing."""
        if end.attempts == 1 and end.usage is not None:
            return end.usage, Tokens()
        spent = (await asyncio.to_thread(jobs.status, job_id)).spent
        if not spent:
            return end.usage, Tokens()
        wasted = sum((each.tokens for each in spent if each.wasted), Tokens())
        return sum((each.tokens for each in spent), Tokens()), wasted

    async def _judged(self, task: Task, text: str, end: End) -> tuple[Verdict, str]:
        if end.outcome != Outcome.COMPLETED:
            timed_out = clock_in(end.reason)
            detail = f"{end.outcome}: {end.reason}" if end.reason else end.outcome
            return (Verdict.TIMEOUT if timed_out else Verdict.ERROR), detail
        if self._truth is None:
            return Verdict.COMPLETED, ""
        return (Verdict.EXACT if text == await self._truth(task) else Verdict.WRONG), ""
