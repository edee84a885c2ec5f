"""What one attempt pays for: its own stream, and what attempts before it left unsaid.

First `catch_up`, when the job is claimed; then what `recorded` says goes into the record with the
seal or the hand-back, in the same step; then `book`. Each can be repeated, and whoever comes next
repeats it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import structlog

from worker.errors import StoreRefused
from worker.job.records import Record
from worker.ledger import booking
from worker.ledger.booking import Payer
from worker.ledger.spending import WORKER_LOST, Spending, unsaid
from worker.log.claim import Claim
from worker.log.commit import GroupCommit
from worker.log.cursor import Cursor
from worker.log.entries import Tokens
from worker.log.stored import aread_stored
from worker.log.writer import Fields
from worker.store.keys import job_keys

_log = structlog.get_logger()
_NOTHING = Spending(attempt=0, at_ms=0)


#: Asks the provider behind a key about a stream; None when it does not say.
Ask = Callable[[str, str], Awaitable[Tokens | None]]


class Stream(Protocol):
    """What an attempt's stream came to: its id, what the provider said it used, and what was
    counted as it came."""

    response_id: str
    tokens: Tokens

    @property
    def produced(self) -> int: ...
    @property
    def thought(self) -> int: ...


async def _unasked(_key: str, _response_id: str) -> Tokens | None:
    return None


@dataclass(slots=True)
class Paying:
    """Of one attempt, from its claim on. `kept_s`: how long the books of a day are kept."""

    commit: GroupCommit
    job_id: str
    key: str
    model: str
    claim: Claim
    kept_s: int
    #: What a stream used.
    ask: Ask = _unasked
    #: The same, after stopping what goes on there.
    stop: Ask = _unasked
    _noting: asyncio.Task[None] | None = None
    _claimed_at: float = field(default_factory=time.monotonic)
    #: What an earlier attempt had of the response that this one takes up.
    _taken_up: Spending = _NOTHING
    _spent: Spending | None = None

    @property
    def payer(self) -> Payer:
        account = self.claim.account
        return Payer(job_id=self.job_id, task=account.task, tenant=account.ticket.tenant)

    def now_ms(self) -> int:
        """The server's time, as far as the claim told it."""
        return self.claim.began_ms + int((time.monotonic() - self._claimed_at) * 1000)

    async def catch_up(self, *, goes_on: bool) -> None:
        """Stop, account for and book what earlier attempts left. `goes_on`: a response that this
        attempt takes up or stops at its end is not over, and is paid for then."""
        account, before = self.claim.account, self.claim.attempt - 1
        upto = account.accounted
        if before > account.accounted:
            log = job_keys(self.job_id).log
            stored = await aread_stored(self.commit.command, log, Cursor(before + 1, 0))
            mode, prompt = self.claim.mode, account.ticket.prompt
            earlier = [each for each in stored if each.at.attempt <= before]
            spent = unsaid(earlier, account.accounted, mode, prompt, self.claim.began_ms)
            spent = [*await self._unlogged(spent), *await self._asked(spent)]
            upto = before
            if goes_on and self.claim.point is not None and spent:
                self._taken_up = spent.pop()
                upto = spent[-1].attempt if spent else account.accounted
            await self.commit.call(*booking.account(self.job_id, upto, spent))
        if upto > account.booked:
            await self._book_what_is_recorded(upto)

    async def spent_before(self) -> list[Spending]:
        """What earlier attempts of the job have used."""
        if self.claim.attempt == 1:
            return []
        raw = await self.commit.command("HGETALL", job_keys(self.job_id).record)
        return booking.unbooked({**raw, b"booked": b"0"}, self.claim.attempt)

    def begun(self, response_id: str) -> None:
        """Note the id of the stream, should nobody be left to say what it used."""
        self._noting = asyncio.create_task(self._note(response_id))

    async def _note(self, response_id: str) -> None:
        try:
            await self.commit.call(*booking.begun(self.job_id, self.claim.attempt, response_id))
        except StoreRefused as refused:
            _log.warning("ledger.stream_not_noted", job=self.job_id, says=str(refused))

    async def recorded(self, stream: Stream | None, *, unpaid: bool, wasted: str) -> Fields:
        """What the record is to say of this attempt, with the step that ends it."""
        tokens, estimated = self._used(stream, unpaid=unpaid)
        if estimated and stream is not None and stream.response_id:
            said = await self.ask(self.key, stream.response_id)
            tokens, estimated = (tokens, True) if said is None else (said, False)
        fields: dict[str, str | bytes | int] = {"accounted": self.claim.attempt}
        if self.model != self.claim.account.ticket.model:
            fields["served_by"] = self.model
        if tokens != Tokens():
            self._spent = Spending(
                attempt=self.claim.attempt,
                at_ms=self.now_ms(),
                key=self.key,
                model=self.model,
                tokens=tokens,
                wasted=wasted,
                estimated=estimated,
            )
            fields[f"spent:{self.claim.attempt}"] = msgspec.json.encode(self._spent)
        return fields

    async def _asked(self, spent: list[Spending]) -> list[Spending]:
        """The same, with what the provider says of those streams whose ids are known."""
        if not spent:
            return spent
        names = [f"stream:{each.attempt}" for each in spent]
        ids = await self.commit.command("HMGET", job_keys(self.job_id).record, *names)
        found = []
        for each, name in zip(spent, ids, strict=True):
            said = await self._said(each, name)
            known = {} if said is None else {"tokens": said, "estimated": False}
            found.append(msgspec.structs.replace(each, **known))
        return found

    async def _unlogged(self, spent: list[Spending]) -> list[Spending]:
        """Responses that were left behind and of which the log, which was lost, says nothing."""
        logged, found = {each.attempt for each in spent}, []
        for attempt, left in sorted(self.claim.left.items()):
            if attempt in logged:
                continue
            used = await self.stop(left.key, left.response_id)
            if used is not None:
                found.append(
                    Spending(
                        attempt=attempt,
                        at_ms=self.claim.began_ms,
                        key=left.key,
                        model=self.model,
                        tokens=used,
                        wasted=WORKER_LOST,
                    )
                )
        return found

    async def _said(self, spending: Spending, name: bytes | None) -> Tokens | None:
        left = self.claim.left.get(spending.attempt)
        if left is not None:
            return await self.stop(left.key, left.response_id)
        return None if name is None else await self.ask(spending.key, name.decode())

    async def book(self) -> None:
        """Into the books with what `recorded` said; call it when that has been written."""
        upto = self.claim.attempt
        if self._spent is None:
            return
        with _kept_apart(self.payer):
            if not await self._booked([self._spent], upto, self._spent.at_ms):
                await self._book_what_is_recorded(upto)

    async def _book_what_is_recorded(self, upto: int) -> None:
        await book_recorded(self.commit, self.payer, upto, self.kept_s)

    async def _booked(self, spent: list[Spending], upto: int, read_ms: int) -> bool:
        return await _booked(self.commit, self.payer, spent, upto, read_ms, self.kept_s)

    def _used(self, stream: Stream | None, *, unpaid: bool) -> tuple[Tokens, bool]:
        """The tokens, and whether they are an estimate."""
        if stream is None:
            return self._taken_up.tokens, True
        if stream.tokens != Tokens():
            return stream.tokens, False
        if unpaid and self._taken_up is _NOTHING:
            return Tokens(), False
        before = self._taken_up.tokens
        estimate = Tokens(
            input=self.claim.account.ticket.prompt,
            output=before.output + stream.produced,
            reasoning=before.reasoning + stream.thought,
        )
        return estimate, True


async def catch_up_ended(commit: GroupCommit, record: Record, kept_s: int) -> None:
    """Book what a worker wrote down that died before it could book it."""
    if record.accounted > record.booked:
        payer = Payer(job_id=record.id, task=record.task, tenant=record.tenant)
        await book_recorded(commit, payer, record.accounted, kept_s)


async def book_recorded(commit: GroupCommit, payer: Payer, upto: int, kept_s: int) -> None:
    """Book what the job's record has up to attempt `upto` and the books lack."""
    with _kept_apart(payer):
        await _book_recorded(commit, payer, upto, kept_s)


@contextmanager
def _kept_apart(payer: Payer) -> Iterator[None]:
    """Books that can not be written are no trouble of the job: its record says what it used."""
    try:
        yield
    except StoreRefused as refused:
        _log.error("ledger.not_booked", job=payer.job_id, says=str(refused))


async def _book_recorded(commit: GroupCommit, payer: Payer, upto: int, kept_s: int) -> None:
    while True:
        seconds, micros = await commit.command("TIME")
        read_ms = int(seconds) * 1000 + int(micros) // 1000
        raw = await commit.command("HGETALL", job_keys(payer.job_id).record)
        spent = booking.unbooked(raw, upto)
        if not spent or await _booked(commit, payer, spent, upto, read_ms, kept_s):
            return


async def _booked(
    commit: GroupCommit,
    payer: Payer,
    spent: list[Spending],
    upto: int,
    read_ms: int,
    kept_s: int,
) -> bool:
    """False: the record must be read again first."""
    for each in spent:
        reply = await commit.call(*booking.book(payer, each, read_ms=read_ms, kept_s=kept_s))
        if reply == booking.STALE:
            return False
    await commit.call(*booking.booked(payer.job_id, upto))
    forgetting: Any = [commit.call(*booking.forget(payer, each)) for each in spent]
    await asyncio.gather(*forgetting)
    return True
