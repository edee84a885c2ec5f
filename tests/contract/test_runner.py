"""What one attempt leaves behind when the job stops being its own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from settings.model import Account
from tests.conftest import Store
from tests.harness.journal import CLAIM, SUBMIT
from tests.harness.lines import Line
from worker.keys import job_keys
from worker.log.commit import GroupCommit
from worker.outcomes import Outcome
from worker.reading import Whole
from worker.runner import Attempt
from worker.upstream.failures import failure_of_answer
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Text
from worker.upstream.request import Message, Request
from worker.work import Sealed, Verdict, Work, Yielded

JOB = "a1b2c3"
KEYS = job_keys(JOB)
REQUEST = Request(model="m", messages=(Message("user", "?"),))


class Provider:
    """A client whose one stream says `text`, then does what it is told."""

    def __init__(self, then: Callable[[], Coroutine[Any, Any, Finished]]) -> None:
        self._then = then

    async def stream_into(self, _request: object, _key: object, take: Take) -> None:
        take([Text("text")])
        take([await self._then()])


def attempt(store: Store, commit: GroupCommit, provider: Provider, deadline_ms: int = 0) -> Attempt:
    """A job that was submitted and granted, about to be run by worker w1."""
    fields = ["task", "t", "model", "m", "pool", "p"]
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [deadline_ms, 0, *fields])
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit(JOB)
    (lease,) = line.ask().leases
    work = Work(lease=lease, build=lambda: REQUEST, read=lambda: Whole(str))
    return Attempt(line.settings, "w1", commit, provider, work)  # type: ignore[arg-type]


async def run(store: Store, then: Callable[[GroupCommit], Any]) -> Verdict:
    commit = GroupCommit(store.aio())
    try:
        async with asyncio.timeout(10):
            return await attempt(store, commit, Provider(lambda: then(commit))).run()
    finally:
        await commit.close()


async def test_an_attempt_that_fails_after_another_took_over_touches_nothing(store: Store) -> None:
    """Its lease lapsed, another claimed the job, and only then does its provider fail."""

    async def taken_over(commit: GroupCommit) -> Finished:
        await commit.call(CLAIM, [KEYS.log, KEYS.record], [99, "w2", "k", "run"])
        raise failure_of_answer(500, {}, b"")

    verdict = await run(store, taken_over)
    assert isinstance(verdict, Yielded)
    assert store.sync.hget(KEYS.record, "state") == b"running"
    assert store.sync.hget(KEYS.record, "worker") == b"w2"


async def test_an_attempt_that_ended_is_not_kept_until_its_deadline(store: Store) -> None:
    async def done() -> Finished:
        return Finished(Outcome.COMPLETED, None)

    commit = GroupCommit(store.aio())
    running = attempt(store, commit, Provider(done), deadline_ms=3_600_000)
    assert isinstance(await running.run(), Sealed)
    kept = weakref.ref(running)
    del running
    gc.collect()
    await commit.close()
    assert kept() is None
