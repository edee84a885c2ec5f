"""What an attempt leaves behind: a sealed job, or one that waits again.

Both close the attempt's log and change the record in one step, and only the owner of the job can
do either. After a hand-back the lease is settled at once; after a seal it stays held until Celery
has stored the result.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from settings.model import Settings
from worker.admission import line
from worker.admission.line import Ending, Lease, Spent
from worker.attempt.pump import Pump
from worker.attempt.reading import Whole
from worker.attempt.work import Sealed, Verdict, Yielded
from worker.errors import StoreRefused
from worker.job.terms import OnInterrupt
from worker.ledger.guard import held_s
from worker.ledger.limits import Over
from worker.ledger.paying import Paying
from worker.ledger.spending import FALLBACK, WASTED
from worker.log.claim import Point
from worker.log.commit import GroupCommit
from worker.log.entries import Mode, Tokens
from worker.log.writer import Fields, Writer
from worker.outcomes import Outcome
from worker.seeing.witness import Witness
from worker.store.keys import job_keys, pool_keys
from worker.store.scripts import script
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure

_RELEASE = script("worker.log", "release")

#: How long a job waits that the store refused, in seconds; doubled each time.
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 600.0
#: How often that counts as when the record can not be written either.
_UNTOLD = 4
NO_TOKENS = Tokens()


@dataclass(slots=True)
class Leaving:
    """Of one attempt. `ending` and `refused`: how its stream ended, once it did."""

    settings: Settings
    commit: GroupCommit
    lease: Lease
    seen: Witness
    paying: Paying | None = None
    pump: Pump | None = None
    ending: Ending = ""
    #: The provider did nothing for it.
    refused: bool = False
    #: What an answer took that this attempt corrects.
    before: Tokens = NO_TOKENS

    @property
    def tokens(self) -> Tokens:
        return Tokens() if self.pump is None else self.pump.tokens

    @property
    def spent(self) -> Spent:
        """What the attempt used, for the line."""
        known = self.refused or self.tokens != Tokens()
        return Spent(self.tokens if known else None, self.ending)

    @property
    def goes_on_with(self) -> str | None:
        """The key with which another attempt takes this one's response up; None: none does."""
        claim = None if self.paying is None else self.paying.claim
        if claim is None or claim.on_interrupt != OnInterrupt.AUTO:
            return None
        if self.pump is not None:
            return self.pump.key.alias if self.pump.resumable else None
        # Stopped before it was begun.
        return claim.point.key if claim.point and claim.mode is Mode.REATTACH else None

    def left_behind(self, client: Client, writer: Writer, point: Point | None) -> None:
        """A response that an earlier attempt began, and that no other will read: `seal` stops it
        with its own key."""
        key = None if point is None else self.settings.key(point.key)
        if key is not None:
            self.pump = Pump(client, writer, key, Whole(str), point=point, seen=self.seen)

    async def hand_back(
        self,
        writer: Writer,
        reason: str,
        *,
        failure: bool,
        cause: str,
        wait_s: float = 0.0,
        forget: bool = False,
    ) -> Yielded:
        """`cause`: in a word, why what was paid for it may be thrown away."""
        alias = None if forget else self.goes_on_with
        record: Fields = {}
        if alias is None:
            forget |= await self._stopped()
            # A response that goes on is paid for by whoever takes it up.
            record = await self._recorded("" if self._is_continued(writer) else cause)
        await writer.hand_back("handed_back", reason, failure=failure, forget=forget, record=record)
        await self._book()
        sticky = "" if forget else alias
        wait_ms, spent = int(wait_s * 1000), self.spent
        back = line.settle(self.lease, back=True, wait_ms=wait_ms, spent=spent, sticky=sticky)
        await self.commit.call(*back)
        self.seen.handed_back(wait_s)
        return Yielded(reason)

    def served_instead(self, writer: Writer) -> Callable[[str, UpstreamFailure], None]:
        """Notes which model is asked because another was not served."""

        def note(other: str, failure: UpstreamFailure) -> None:
            self.seen.fell_back(other, failure)
            writer.note(FALLBACK, f"{other}: {failure.kind}")
            if self.paying is not None:
                self.paying.model = other

        return note

    async def over(self, writer: Writer, over: Over) -> Verdict:
        """A budget forbids to begin: the job waits, or ends with what text there is."""
        if over.action == "hold" and self.paying is not None:
            wait_s = held_s(over, self.paying.now_ms())
            return await self.hand_back(
                writer, over.reason, failure=False, cause="budget", wait_s=wait_s
            )
        outcome = Outcome.INCOMPLETE if writer.length else Outcome.FAILED
        return await self.seal(writer, outcome, over.reason)

    async def to_be_corrected(self, writer: Writer, reason: str) -> Yielded:
        """The answer is whole and stays; a second request has to wait for its share of the limits
        like any other."""
        await writer.hand_back(
            "repair",
            reason,
            failure=False,
            forget=True,
            answered=self.before + self.tokens,
            record=await self._recorded(""),
        )
        await self._book()
        back = line.settle(self.lease, back=True, spent=self.spent, sticky="")
        await self.commit.call(*back)
        self.seen.used(self.tokens)
        self.seen.handed_back(0.0)
        return Yielded(reason)

    async def seal(
        self, writer: Writer, outcome: Outcome, reason: str, result: Any = None
    ) -> Sealed:
        """A response that still goes on is stopped at the provider: nobody will take it up."""
        if self.pump is not None and self.pump.goes_on and (await self._owner())[0]:
            await self.pump.cancel()
        used = self.before + self.tokens
        usage = used if used != Tokens() else None
        await writer.seal(
            outcome,
            reason=reason,
            usage=usage,
            ages_s=self.settings.retention.ages_s,
            record={
                **await self._recorded(outcome if outcome in WASTED else ""),
                "usage": msgspec.json.encode(usage),
                "result": msgspec.json.encode(result),
            },
        )
        await self._book()
        self.seen.sealed(outcome, writer.length, self.tokens)
        return Sealed(outcome, reason, result)

    async def release(self, attempt: int, error: Exception) -> Yielded:
        """Let go of a job that can not be written, without ending it and without blame: it is tried
        again, ever more rarely, until somebody has mended what is wrong."""
        record = job_keys(self.lease.job_id).record
        times = _UNTOLD
        with suppress(StoreRefused):
            times = await self.commit.call(_RELEASE, [record], [attempt, str(error)])
        wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**times)
        back = line.settle(self.lease, back=True, wait_ms=int(wait_s * 1000), spent=self.spent)
        with suppress(StoreRefused):
            await self.commit.call(*back)
        self.seen.refused(error, wait_s)
        return Yielded(str(error))

    async def overtaken(self) -> None:
        """A lease with a higher number had the job. If that is held, nothing is left to do; if the
        line had to count anew, the job goes back, and the line counts on from there."""
        pool, record = pool_keys(self.lease.pool), job_keys(self.lease.job_id).record
        highest = int(await self.commit.command("HGET", record, "lease") or 0)
        more = max(0, highest - self.lease.number)
        await self.commit.command("INCRBY", pool.counter, more)
        await self.commit.call(*line.settle(self.lease, back=True))

    async def lost(self, writer: Writer) -> Yielded:
        """The lease is gone. What came is stored all the same, and with it where the response can
        be taken up, unless somebody has begun anew meanwhile."""
        self.seen.lost()
        await writer.flush()
        await self.let_go()
        return Yielded("the lease was lost")

    async def let_go(self) -> None:
        """The job is another's, or will be. A response that is not taken up, since who has the job
        now asked anew, is stopped at the provider: it is paid for, and nobody will read it."""
        if self.pump is None or not self.pump.goes_on:
            return
        with suppress(StoreRefused):
            owned, point = await self._owner()
            if not owned and (point is None or not self.pump.reads(point)):
                await self.pump.cancel()

    async def _stopped(self) -> bool:
        """Stop a response that no other attempt takes up; whether there is one."""
        if self.pump is None or not self.pump.resumable:
            return False
        if self.pump.goes_on and (await self._owner())[0]:
            await self.pump.cancel()
        return True

    async def _owner(self) -> tuple[bool, Point | None]:
        """Whether that is this attempt, and the response it would take up."""
        record = job_keys(self.lease.job_id).record
        attempt, at = await self.commit.command("HMGET", record, "attempt", "resume")
        mine = None if self.paying is None else self.paying.claim.attempt
        owned = attempt is not None and int(attempt) == mine
        return owned, msgspec.json.decode(at, type=Point) if at else None

    async def _recorded(self, wasted: str) -> Fields:
        if self.paying is None:
            return {}
        return await self.paying.recorded(self.pump, unpaid=self.refused, wasted=wasted)

    async def _book(self) -> None:
        if self.paying is not None:
            await self.paying.book()

    def _is_continued(self, writer: Writer) -> bool:
        """Whether the next attempt makes use of this one's text."""
        policy = "" if self.paying is None else self.paying.claim.on_interrupt
        return policy == OnInterrupt.CONTINUE and writer.length > 0
