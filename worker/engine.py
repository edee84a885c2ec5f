"""The engine: one asyncio loop per process, shared by all streams of it.

Streams share one HTTP client and one Redis connection for what they write. Celery's pool threads
hand a job in and wait; the loop runs in a thread of its own. A lease stays held from the hand-in
until `settle`, which comes after Celery has stored the result: a worker that dies between seal
and result leaves a lease behind, and the next one repeats the result.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import structlog

from settings.model import Settings
from worker.admission import line
from worker.admission.line import Held, Lease, Spent
from worker.attempt.runner import Attempt
from worker.attempt.work import Stop, Verdict, Work, Yielded
from worker.collecting import Collector
from worker.errors import StoreRefused
from worker.job.cancel import ELSEWHERE, Closed
from worker.ledger.purse import Purse
from worker.log.commit import GroupCommit
from worker.messages.message import Message
from worker.sockets.loop import new_loop
from worker.store.connections import connect_async
from worker.store.keys import job_keys
from worker.upstream.client import Client

#: How long another thread may compute while the loop has something to do, in seconds: Python's own
#: 5 ms would hold up every stream whenever a job begins or ends in one.
_SWITCH_S = 0.0005
#: How often the loop shows that it turns, in seconds.
_TURN_S = 0.5
_START_TIMEOUT_S = 30.0
#: What a hand-back may take beyond everything else while the store answers, in seconds.
_GRACE_S = 5.0

T = TypeVar("T")

_log = structlog.get_logger()


class Engine:
    """All methods may be called from any thread."""

    def __init__(
        self, settings: Settings, worker: str, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """`stopping` is looked at all the time; once it is true, the engine drains."""
        self._stopping = stopping
        self.settings = settings
        self.worker = worker
        self._redis_url = settings.store_url
        self._attempts: dict[str, Attempt] = {}
        self._leases: dict[str, Lease] = {}
        self._spent: dict[str, Spent] = {}
        self.draining = False
        self._waited_for: set[asyncio.Task[Any]] = set()
        self._given_up = False
        self._turned_at = time.monotonic()
        self._collector = Collector()
        self._loop = new_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="longstream-engine", daemon=True)

    def start(self) -> None:
        sys.setswitchinterval(_SWITCH_S)
        self._collector.take_over()
        self._thread.start()
        if not self._ready.wait(_START_TIMEOUT_S):
            raise RuntimeError("the engine's loop did not start")

    def run(self, work: Work) -> Verdict:
        """Run one attempt to its end. Blocks the calling thread."""
        given_up = Yielded("the store is away, and the worker's time to stop is over")
        try:
            return self._wait(self._run(work), given_up)
        except StoreRefused as error:
            # Nothing is known of the job, and its lease lapses: it is not Celery's to fail.
            _log.error("job.store_refused", job=work.lease.job_id, says=str(error))
            return Yielded(str(error))

    def message(self, job_id: str) -> Message | None:
        """The message of a job as it was submitted. Waits for the store as long as it is away."""
        reading = self._commit.command("HGET", job_keys(job_id).record, "message")
        try:
            stored = self._wait(reading, None)
        except StoreRefused:
            # The record is none; the claim will find that out and let the job go.
            return None
        return None if stored is None else Message.load(stored)

    def close_waiting(self, job_id: str) -> Closed:
        """Seal a job that is to end and that nobody holds, and stop its response. Blocks."""
        try:
            return self._wait(self._close_waiting(job_id), None)
        except StoreRefused as error:
            _log.error("job.store_refused", job=job_id, says=str(error))
            return None

    def settle(self, lease: Lease) -> None:
        """Give the lease up for good. Blocks until the store has it."""
        self._wait(self._settle(lease), None)

    def abandon(self, lease: Lease) -> None:
        """Renew the lease no more: when it expires, its next holder repeats the result."""
        self._leases.pop(lease.job_id, None)
        self._spent.pop(lease.job_id, None)

    def stop(self, job_id: str, why: Stop) -> None:
        """Tell one stream to stop; a job that does not run here is no error."""
        self._loop.call_soon_threadsafe(self._stop, job_id, why)

    def drain(self, within_s: float) -> None:
        """Take nothing new; hand back at once what another worker can go on with, and what else
        still runs `within_s` seconds from now. What can not even be handed back, since the store is
        away, is given up when its lease has run out: another worker takes it over.

        Safe in a signal handler: it only leaves a note for the loop.
        """
        self.draining = True
        self._loop.call_soon_threadsafe(self._hand_back, True)
        self._loop.call_soon_threadsafe(self._loop.call_later, within_s, self._hand_back, False)
        # Only a store that is away can have kept a stream so long, and then its lease is over.
        last_s = within_s + self.settings.worker.lease_s + _GRACE_S
        self._loop.call_soon_threadsafe(self._loop.call_later, last_s, self._give_up)

    def close(self) -> None:
        """End the loop. Streams must have ended."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()
            self._collector.give_back()

    @property
    def running(self) -> int:
        """Jobs that have begun here and not been settled."""
        return len(self._leases)

    def held(self) -> list[Held]:
        """The leases to renew, with what their answers have so far."""
        return [self._held(lease) for lease in list(self._leases.values())]

    def idle_s(self) -> float:
        """Seconds since the loop last turned. A loop that hangs must lose its leases."""
        return time.monotonic() - self._turned_at

    @property
    def turns(self) -> bool:
        """Whether the loop is seen to turn."""
        return self.idle_s() < self.settings.worker.lease_s / 2

    def _wait(self, coroutine: Coroutine[Any, Any, T], given_up: T) -> T:
        """What the coroutine returns; `given_up` when the store is away, and the time is over."""
        try:
            return asyncio.run_coroutine_threadsafe(self._noted(coroutine), self._loop).result()
        except CancelledError:
            return given_up

    async def _noted(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._waited_for.add(task)
        try:
            if self._given_up:
                task.cancel()
            return await coroutine
        finally:
            self._waited_for.discard(task)

    def _give_up(self) -> None:
        self._given_up = True
        for task in list(self._waited_for):
            _log.warning("job.given_up")
            task.cancel()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        self._commit = GroupCommit(connect_async(self._redis_url))
        self._purse = Purse(self.settings, self._commit)
        async with Client(self.settings.clocks, self.settings.ca_bundle) as self._client:
            turning = asyncio.create_task(self._turn())
            self._ready.set()
            await self._closing.wait()
            turning.cancel()
            if unfinished := list(self._waited_for):
                # Jobs that were being closed: their notes stay, and another worker comes to it.
                self._give_up()
                await asyncio.wait(unfinished, timeout=_GRACE_S)
        await self._commit.close()

    async def _turn(self) -> None:
        while True:
            self._turned_at = time.monotonic()
            if not self.draining and self._stopping():
                self.drain(self.settings.worker.drain_s)
            self._collector.look(self.running)
            await asyncio.sleep(_TURN_S)

    async def _run(self, work: Work) -> Verdict:
        job_id = work.lease.job_id
        if self.draining:
            await self._commit.call(*line.settle(work.lease, back=True))
            return Yielded("the worker is shutting down")
        if job_id in self._leases:
            return Yielded("this process has the job already")
        attempt = Attempt(self.settings, self.worker, self._commit, self._client, work, self._purse)
        self._attempts[job_id] = attempt
        self._leases[job_id] = work.lease
        verdict: Verdict | None = None
        try:
            verdict = await attempt.run()
            return verdict
        finally:
            del self._attempts[job_id]
            if verdict is None or isinstance(verdict, Yielded):
                self._leases.pop(job_id, None)
            else:
                self._spent[job_id] = attempt.spent

    async def _close_waiting(self, job_id: str) -> Closed:
        pool = await self._commit.command("HGET", job_keys(job_id).record, "pool")
        if pool is None:
            return ELSEWHERE
        if await self._commit.call(*line.withdraw(pool.decode(), job_id)) == b"held":
            return ELSEWHERE
        work = Work.to_close(Lease(job_id=job_id, pool=pool.decode(), number=0, key=""))
        attempt = Attempt(self.settings, self.worker, self._commit, self._client, work, self._purse)
        verdict = await attempt.close()
        return None if isinstance(verdict, Yielded) else verdict.outcome

    async def _settle(self, lease: Lease) -> None:
        self._leases.pop(lease.job_id, None)
        spent = self._spent.pop(lease.job_id, line.NOTHING_KNOWN)
        try:
            await self._commit.call(*line.settle(lease, back=False, spent=spent))
        except StoreRefused as error:
            # The job is sealed and its result is stored; the lease lapses by itself.
            _log.error("lease.not_settled", job=lease.job_id, says=str(error))

    def _held(self, lease: Lease) -> Held:
        key, attempt = self.settings.key(lease.key), self._attempts.get(lease.job_id)
        account = key.account if key else ""
        if attempt is None:
            return Held(lease, account)
        return Held(lease, account, attempt.produced, attempt.resumable)

    def _stop(self, job_id: str, why: Stop) -> None:
        if (attempt := self._attempts.get(job_id)) is not None:
            attempt.stop(why)

    def _hand_back(self, only_resumable: bool) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.resumable or not only_resumable:
                attempt.stop(Stop.DRAIN)
