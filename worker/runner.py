"""One attempt of one job, from its lease to what it leaves behind.

Whatever happens, it ends in one of three ways: the job is sealed, the job waits again, or the
attempt found that the job is not its own and touched nothing. A retry is free only before the
first visible delta; after it, the next attempt restarts the answer and says so in the log.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
import structlog

from settings.errors import LongstreamError
from settings.model import Settings
from worker.admission import line
from worker.admission.line import Lease
from worker.errors import StoreError
from worker.keys import job_keys
from worker.log.commit import GroupCommit
from worker.log.entries import Tokens
from worker.log.writer import Writer
from worker.outcomes import Outcome
from worker.records import Record, parse_record
from worker.scripts import script
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Finished, Happening, Refusal, Text, Thinking, Usage
from worker.upstream.request import Request

_CLAIM = script("worker.log", "claim")

#: Full jitter over min(60, 2^n) seconds, the field's recipe for a failing provider.
_LONGEST_BACKOFF_S = 60.0
#: How often readers hear of reasoning tokens while nothing visible comes, in seconds.
_THINKING_EVERY_S = 0.5

_log = structlog.get_logger()


class Stop(Enum):
    """Why a stream is told to stop from outside."""

    CANCEL = "cancel"
    DRAIN = "drain"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Sealed:
    """The job ended, now or before; `result` is what the task returns."""

    outcome: Outcome
    reason: str
    result: Any


@dataclass(frozen=True, slots=True)
class Yielded:
    """The job is not ended, and not this attempt's any more."""

    reason: str


Verdict = Sealed | Yielded


@dataclass(frozen=True, slots=True)
class Work:
    """What a task brings: how to ask, and what to make of the answer."""

    lease: Lease
    build: Callable[[], Request]
    finish: Callable[[str], Any]
    #: After this a job that has not begun does not begin any more.
    expires: datetime | None = None


class Attempt:
    """Runs on the engine's loop. `stop` may be called from the same loop at any time."""

    def __init__(
        self, settings: Settings, worker: str, commit: GroupCommit, client: Client, work: Work
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._commit = commit
        self._client = client
        self._work = work
        self._lease = work.lease
        self._keys = job_keys(work.lease.job_id)
        self._stopped: Stop | None = None
        self._pumping: asyncio.Task[Finished] | None = None
        self._text: list[str] = []
        self._tokens = Tokens()
        self._failures = 0
        self._log = _log.bind(job=work.lease.job_id, key=work.lease.key)

    def stop(self, why: Stop) -> None:
        """Stop the stream at its next step; the first reason counts. What ended is left alone."""
        if self._stopped is None:
            self._stopped = why
            if self._pumping is not None:
                self._pumping.cancel()

    async def run(self) -> Verdict:
        """Start, claim, stream, conclude."""
        worker = self._settings.worker
        started = line.start(
            self._lease, self._worker, uuid.uuid4().hex, lease_ms=_ms(worker.lease_s)
        )
        if not await self._commit.call(*started):
            self._log.info("job.message_dropped", lease=self._lease.number)
            return Yielded("the lease is gone")
        reply = await self._commit.call(
            _CLAIM,
            [self._keys.log, self._keys.record],
            [self._lease.number, self._worker, self._lease.key, "run", "", 0],
        )
        if reply[0] != b"claimed":
            return await self._not_claimed(reply[0].decode())
        _, attempt, first, crashes, cancelled, self._failures = reply
        self._log = self._log.bind(attempt=attempt)
        self._log.info("job.claimed", crashes=crashes)
        writer = Writer(self._commit, self._keys, attempt, first, buffer_bytes=worker.buffer_bytes)
        if cancelled:
            return await self._seal(writer, Outcome.CANCELLED, "cancelled")
        expires = self._work.expires
        if attempt == 1 and expires is not None and datetime.now(UTC) >= expires:
            return await self._seal(writer, Outcome.EXPIRED, "expired before it began")
        if crashes >= worker.max_crashes:
            return await self._seal(
                writer, Outcome.FAILED, f"poison: its workers died {crashes} times"
            )
        return await self._streamed(writer)

    async def _not_claimed(self, why: str) -> Verdict:
        if why == "ended":
            # Sealed by a worker that died before Celery heard of it: say it again.
            record = await self._record()
            if record is not None:
                return Sealed(Outcome(record.outcome), record.reason, record.result)
        await self._commit.call(*line.settle(self._lease, self._worker, back=False))
        return Yielded(f"not claimed: {why}")

    async def _streamed(self, writer: Writer) -> Verdict:
        try:
            finished = await self._until_stopped(self._pump(writer))
            if finished is None:
                return await self._halted(writer)
            return await self._conclude(writer, finished)
        except UpstreamFailure as failure:
            return await self._failed(writer, failure)
        except StoreError as error:
            self._log.warning("job.fenced", error=str(error))
            return Yielded(str(error))
        except LongstreamError as error:
            return await self._seal(writer, Outcome.FAILED, str(error))
        except Exception as error:
            # The message may quote the answer, so only its type goes on.
            self._log.exception("job.task_code_failed", exc_info=False, error=type(error).__name__)
            reason = f"{type(error).__name__} in the code of the task"
            return await self._seal(writer, Outcome.FAILED, reason)

    async def _until_stopped(self, pump: Coroutine[Any, Any, Finished]) -> Finished | None:
        """The pump's end; None when `stop` came first. Only the pump is ever cancelled, so what
        follows it is never cut in half."""
        if self._stopped is not None:
            pump.close()
            return None
        self._pumping = asyncio.create_task(pump)
        try:
            await asyncio.wait({self._pumping})
            return None if self._pumping.cancelled() else self._pumping.result()
        finally:
            self._pumping.cancel()
            self._pumping = None

    async def _pump(self, writer: Writer) -> Finished:
        """Move what the provider sends into the log; the end it earned."""
        key = self._settings.key(self._lease.key)
        if key is None:
            raise LongstreamError(f"key {self._lease.key} is not in this worker's settings")
        thought, shown_at = 0, 0.0
        loop = asyncio.get_running_loop()
        request = await asyncio.to_thread(self._work.build)
        stream = self._client.stream(request, key)
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream) as batches:
            async for batch in batches:
                for happening in batch:
                    if isinstance(happening, Text):
                        writer.text(happening.text)
                        self._text.append(happening.text)
                    elif isinstance(happening, Thinking):
                        thought += happening.tokens
                    elif isinstance(happening, Finished):
                        writer.thinking(thought)
                        return happening
                    else:
                        self._other(writer, happening)
                visible = isinstance(batch[-1], Text) if batch else False
                if visible or loop.time() - shown_at >= _THINKING_EVERY_S:
                    writer.thinking(thought)
                    shown_at = loop.time()
                await writer.room()
        raise AssertionError("the client ended a stream without a Finished")

    def _other(self, writer: Writer, happening: Happening) -> None:
        if isinstance(happening, Usage):
            self._tokens = Tokens(
                input=happening.input_tokens,
                cached=happening.cached_tokens,
                output=happening.output_tokens,
                reasoning=happening.reasoning_tokens,
            )
        elif isinstance(happening, Refusal):
            writer.text(happening.text)
            self._text.append(happening.text)

    async def _conclude(self, writer: Writer, finished: Finished) -> Verdict:
        if finished.outcome is not Outcome.COMPLETED:
            return await self._seal(writer, finished.outcome, finished.reason or "")
        result = await asyncio.to_thread(self._work.finish, "".join(self._text))
        return await self._seal(writer, Outcome.COMPLETED, "", result)

    async def _halted(self, writer: Writer) -> Verdict:
        if self._stopped is Stop.CANCEL:
            return await self._seal(writer, Outcome.CANCELLED, "cancelled")
        if self._stopped is Stop.DRAIN:
            return await self._hand_back(writer, "the worker is shutting down", failure=False)
        self._log.warning("job.lease_lost")
        return Yielded("the lease was lost")

    async def _failed(self, writer: Writer, failure: UpstreamFailure) -> Verdict:
        self._log.warning("job.upstream_failed", kind=failure.kind, fault=failure.fault)
        counts = failure.status != 429
        last = self._failures + 1 >= self._settings.worker.max_attempts
        if not failure.retryable or (counts and last):
            cut = failure.retryable and writer.length > 0
            return await self._seal(
                writer, Outcome.INTERRUPTED if cut else Outcome.FAILED, str(failure)
            )
        wait_s = failure.delay_s
        if wait_s is None:
            wait_s = random.uniform(0, min(_LONGEST_BACKOFF_S, 2.0**self._failures))  # noqa: S311
        return await self._hand_back(writer, str(failure), failure=counts, wait_s=wait_s)

    async def _hand_back(
        self, writer: Writer, reason: str, *, failure: bool, wait_s: float = 0.0
    ) -> Verdict:
        await writer.hand_back("handed_back", reason, failure=failure)
        await self._commit.call(
            *line.settle(self._lease, self._worker, back=True, wait_ms=_ms(wait_s))
        )
        self._log.info("job.handed_back", wait_s=round(wait_s, 3))
        return Yielded(reason)

    async def _seal(
        self, writer: Writer, outcome: Outcome, reason: str, result: Any = None
    ) -> Verdict:
        keep = self._settings.retention
        usage = self._tokens if self._tokens != Tokens() else None
        await writer.seal(
            outcome,
            reason=reason,
            usage=usage,
            keep_log_s=keep.log_s,
            keep_record_s=max(keep.log_s, keep.record_s),
            record={
                "usage": msgspec.json.encode(usage),
                "result": msgspec.json.encode(result),
            },
        )
        self._log.info("job.finished", outcome=outcome, length=writer.length)
        return Sealed(outcome, reason, result)

    async def _record(self) -> Record | None:
        raw = await self._commit.command("HGETALL", self._keys.record)
        return parse_record(self._lease.job_id, raw)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
