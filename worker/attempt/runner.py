"""One attempt of one job, from its lease to what it leaves behind.

Whatever happens, it ends in one of three ways: the job is sealed, the job waits again, or the
attempt found that the job is not its own and touched nothing. A retry is free only before the
first visible delta; after it, the next attempt restarts the answer and says so in the log.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from functools import partial

from settings.errors import LongstreamError
from settings.model import Key, Settings
from worker.admission import answers, line
from worker.admission.line import Spent
from worker.attempt.fallback import fallbacks_of, served
from worker.attempt.leaving import Leaving
from worker.attempt.pump import Pump
from worker.attempt.reading import Unusable
from worker.attempt.stopping import Stopping
from worker.attempt.turn import Turn, turn_of
from worker.attempt.work import Sealed, Stop, Verdict, Work, Yielded, ended_before, words_of
from worker.errors import LogGone, StoreError, StoreRefused
from worker.job.records import parse_record
from worker.ledger.asking import asking, stopping
from worker.ledger.guard import Guard
from worker.ledger.paying import Paying, catch_up_ended
from worker.ledger.purse import Purse
from worker.log.claim import Claim, Point, claim_of
from worker.log.commit import GroupCommit
from worker.log.entries import Mode, Tokens
from worker.log.stored import aread_stored, clean_text
from worker.log.writer import Writer
from worker.outcomes import Outcome
from worker.seeing.tracing import traces
from worker.seeing.witness import Witness
from worker.store.keys import job_keys
from worker.store.scripts import script
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished

_CLAIM = script("worker.log", "claim")


class Attempt:
    """Runs on the engine's loop. `stop` may be called from the same loop at any time."""

    def __init__(
        self,
        settings: Settings,
        worker: str,
        commit: GroupCommit,
        client: Client,
        work: Work,
        purse: Purse | None = None,
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._commit = commit
        self._client = client
        self._work = work
        self._lease = work.lease
        self._keys = job_keys(work.lease.job_id)
        self._stopping = Stopping()
        self._seen = Witness(work.lease, work.trace, traces(settings.tracing))
        self._leaving = Leaving(settings, commit, work.lease, self._seen)
        self._turn: Turn | None = None
        self._purse = purse or Purse(settings, commit)
        self._guard: Guard | None = None
        self._failures = 0
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def _pump(self) -> Pump | None:
        return self._leaving.pump

    @property
    def resumable(self) -> bool:
        """True when another attempt can go on without a seam."""
        return self._leaving.goes_on_with is not None

    @property
    def produced(self) -> int:
        """Tokens of the answer so far, as far as that can be told."""
        return 0 if self._pump is None else self._pump.produced

    @property
    def spent(self) -> Spent:
        """What the attempt used, for the line."""
        return self._leaving.spent

    def stop(self, why: Stop) -> None:
        """Stop the stream at its next step; the first reason counts. What ended is left alone."""
        self._stopping.stop(why)

    async def run(self) -> Verdict:
        """Start, claim, stream, conclude."""
        lease_ms = int(self._settings.worker.lease_s * 1000)
        started = line.start(self._lease, self._worker, uuid.uuid4().hex, lease_ms=lease_ms)
        if not await self._commit.call(*started):
            self._seen.dropped()
            return Yielded("the lease is gone")
        return await self._begun("run")

    async def close(self) -> Verdict:
        """Only seal a job that nobody runs, without a lease, and stop its response."""
        return await self._begun("close")

    async def _begun(self, purpose: str) -> Verdict:
        try:
            claim = await self._claim(purpose)
        except StoreRefused as error:
            return await self._leaving.release(0, error)
        if isinstance(claim, str):
            return await self._not_claimed(claim)
        self._failures = claim.failures
        self._seen.claimed(claim)
        self._leaving.before = Tokens() if claim.repair is None else claim.repair.used
        try:
            return await self._claimed(claim)
        except (StoreRefused, LogGone) as error:
            return await self._leaving.release(claim.attempt, error)
        except StoreError as error:
            self._seen.fenced(error)
            await self._leaving.let_go()
            return Yielded(str(error))
        finally:
            self._seen.over()
            if self._deadline is not None:
                self._deadline.cancel()

    async def _claimed(self, claim: Claim) -> Verdict:
        # The entries up to the one this attempt goes on from, superseded ones among them.
        upto = claim.base if claim.offset else None
        kept = await aread_stored(self._commit.command, self._keys.log, upto) if upto else []
        said = clean_text(kept)
        writer = Writer(
            self._commit,
            self._keys,
            claim.attempt,
            claim.first,
            buffer_bytes=self._settings.worker.buffer_bytes,
            said=said,
            kept=kept,
            stored=self._seen.stored,
        )
        ended = ended_before(claim, self._work, self._settings.worker.max_crashes)
        self._guard = guard = self._pays(claim)
        await guard.paying.catch_up(goes_on=ended is None or claim.point is not None)
        if ended is not None:
            self._leaving.left_behind(self._client, writer, claim.point)
            return await self._leaving.seal(writer, *ended)
        if (over := await guard.before()) is not None:
            return await self._leaving.over(writer, over)
        if claim.deadline_ms:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(claim.deadline_ms / 1000, self.stop, Stop.DEADLINE)
        return await self._streamed(writer, claim, said)

    def _pays(self, claim: Claim) -> Guard:
        alias = self._lease.key if claim.point is None else claim.point.key
        whose = (self._lease.job_id, alias, claim.account.ticket.model)
        provider, kept_s = (self._client, self._settings), self._settings.retention.spend_s
        asks = asking(*provider), stopping(*provider)
        self._leaving.paying = paying = Paying(self._commit, *whose, claim, kept_s, *asks)
        stop = partial(self._stopping.stop, Stop.BUDGET)
        return Guard(self._settings, self._purse, paying, stop)

    async def _claim(self, purpose: str) -> Claim | str:
        args = [self._lease.number, self._worker, self._lease.key, purpose]
        return claim_of(await self._commit.call(_CLAIM, [self._keys.log, self._keys.record], args))

    async def _not_claimed(self, why: str) -> Verdict:
        if why == "ended":
            # Sealed by a worker that died before Celery heard of it: say it again.
            raw = await self._commit.command("HGETALL", self._keys.record)
            record = parse_record(self._lease.job_id, raw)
            if record is not None:
                await catch_up_ended(self._commit, record, self._settings.retention.spend_s)
                return Sealed(Outcome(record.outcome), record.reason, record.result)
        done = line.settle(self._lease, back=False)
        await (self._leaving.overtaken() if why == "stale" else self._commit.call(*done))
        self._seen.not_claimed()
        return Yielded(f"not claimed: {why}")

    async def _streamed(self, writer: Writer, claim: Claim, said: str) -> Verdict:
        try:
            assert self._guard is not None
            stream = self._guard.watching(lambda: self._stream(writer, claim, said))
            finished = await self._stopping.until_stopped(stream)
            if finished is None:
                return await self._halted(writer)
            return await self._conclude(writer, finished)
        except UpstreamFailure as failure:
            return await self._failed(writer, failure, rejoining=claim.mode is Mode.REATTACH)
        except StoreError:
            raise
        except LongstreamError as error:
            return await self._leaving.seal(writer, Outcome.FAILED, str(error))
        except Exception as error:
            # The message may quote the answer, so only its type goes on.
            self._seen.code_failed(error)
            reason = f"{type(error).__name__} in the code of the task"
            return await self._leaving.seal(writer, Outcome.FAILED, reason)

    async def _stream(self, writer: Writer, claim: Claim, said: str) -> Finished:
        point = claim.point
        alias = self._lease.key if point is None else point.key
        key = self._settings.key(alias)
        if key is None:
            raise LongstreamError(f"key {alias} is not in this worker's settings")
        turn = self._turn = await asyncio.to_thread(turn_of, self._work, claim, said)
        if turn.request is None:
            return Finished(Outcome.COMPLETED, None)
        asked, model = turn.request, turn.request.model
        others = () if point else fallbacks_of(self._settings, self._lease.pool, model)
        noted = self._leaving.served_instead(writer)
        return await served(asked, others, lambda: self._pumped(writer, key, turn, point), noted)

    def _pumped(self, writer: Writer, key: Key, turn: Turn, point: Point | None) -> Pump:
        assert self._guard is not None
        pump = Pump(
            *(self._client, writer, key, turn.reading),
            said=turn.said,
            point=point,
            hear=answers.hearing(self._commit, self._settings, self._lease),
            pay=self._guard.produced,
            begun=self._guard.paying.begun,
            seen=self._seen,
        )
        self._leaving.pump = pump
        return pump

    async def _conclude(self, writer: Writer, finished: Finished) -> Verdict:
        self._leaving.ending = "answered"
        if finished.outcome is not Outcome.COMPLETED:
            return await self._leaving.seal(writer, finished.outcome, finished.reason or "")
        assert self._turn is not None
        for mark in self._turn.reading.close():
            writer.note(mark.what, mark.name)
        try:
            result = await asyncio.to_thread(self._turn.reading.finish)
        except Unusable as broken:
            return await self._leaving.to_be_corrected(writer, f"to be corrected: {broken}")
        return await self._leaving.seal(writer, Outcome.COMPLETED, "", result)

    async def _halted(self, writer: Writer) -> Verdict:
        why = self._stopping.why
        if why is Stop.DRAIN:
            reason = "the worker is shutting down"
            return await self._leaving.hand_back(writer, reason, failure=False, cause="drained")
        if why is Stop.LOST:
            return await self._leaving.lost(writer)
        if why is Stop.BUDGET and self._guard is not None:
            return await self._leaving.seal(writer, Outcome.INCOMPLETE, self._guard.reason)
        if why is Stop.DEADLINE:
            return await self._leaving.seal(writer, Outcome.EXPIRED, "its deadline has passed")
        return await self._leaving.seal(writer, Outcome.CANCELLED, "cancelled")

    async def _failed(
        self, writer: Writer, failure: UpstreamFailure, *, rejoining: bool
    ) -> Verdict:
        """The next rung of the ladder: try again if that may help and the job allows it."""
        # It is kept by what it ended, and its traceback holds all of that.
        failure.__traceback__ = None
        self._seen.failed(failure)
        asked = self._turn.request if self._turn else None
        reason = words_of(failure, self._settings.key(self._lease.key), asked)
        told = await answers.told(self._commit, self._settings, self._lease, failure)
        self._leaving.ending, self._leaving.refused = "refused", told.unused
        if told.free:
            return await self._leaving.hand_back(writer, reason, failure=False, cause=failure.kind)
        gone = rejoining and not failure.retryable
        last = self._failures + 1 >= self._settings.worker.max_attempts
        if told.fails or (not gone and (last or not failure.retryable)):
            cut = failure.retryable and writer.length > 0
            return await self._leaving.seal(
                writer, Outcome.INTERRUPTED if cut else Outcome.FAILED, reason
            )
        wait_s = failure.delay_s
        if wait_s is None:
            longest_s = min(self._settings.worker.backoff_s, 2.0**self._failures)
            wait_s = random.uniform(0, longest_s)  # noqa: S311
        # A response that is gone, or says something else now, leaves only a marked restart.
        return await self._leaving.hand_back(
            writer,
            str(failure),
            failure=not gone,
            cause=failure.kind,
            wait_s=0.0 if gone else wait_s,
            forget=gone,
        )
