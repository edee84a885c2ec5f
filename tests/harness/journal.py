"""One job's log in a store, written by the product's own scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.conftest import Store
from worker.log.claim import Claim, claim_of
from worker.log.commit import GroupCommit
from worker.log.stored import Stored, aread_stored, clean_text, read_stored
from worker.log.writer import Writer
from worker.store.keys import job_keys
from worker.store.scripts import script

CLAIM = script("worker.log", "claim")
SUBMIT = script("worker.log", "submit")
AGES_S = (100, 200, 300)


class Journal:
    """Submits one job; claims and reads it. Every claim stands for a new lease."""

    def __init__(self, store: Store, commit: GroupCommit, job_id: str, policy: str) -> None:
        self.store = store
        self.job_id = job_id
        self.keys = job_keys(job_id)
        self._commit = commit
        self._lease = 0
        fields = ["task", "t", "model", "m", "pool", "p", "on_interrupt", policy]
        SUBMIT.call(store.sync, [self.keys.record, self.keys.tombstone], [0, 0, *fields])

    async def claimed(self, worker: str = "w1") -> Claim:
        self._lease += 1
        reply = await self._commit.call(
            CLAIM, [self.keys.log, self.keys.record], [self._lease, worker, "k", "run"]
        )
        claimed = claim_of(reply)
        assert isinstance(claimed, Claim), claimed
        return claimed

    async def writer(self, worker: str = "w1") -> Writer:
        """A new attempt, as the runner begins one."""
        claimed = await self.claimed(worker)
        kept: list[Stored] = []
        if claimed.offset:
            kept = await aread_stored(self._commit.command, self.keys.log, claimed.base)
        return Writer(
            self._commit,
            self.keys,
            claimed.attempt,
            claimed.first,
            buffer_bytes=1 << 20,
            said=clean_text(kept),
            kept=kept,
        )

    def writer_of(self, claim: Claim) -> Writer:
        """The writer of an attempt that keeps no text."""
        return Writer(self._commit, self.keys, claim.attempt, claim.first, buffer_bytes=1 << 20)

    def log(self) -> list[Stored]:
        return read_stored(self.store.sync.execute_command, self.keys.log)

    def record(self) -> dict[Any, Any]:
        found: Any = self.store.sync.hgetall(self.keys.record)
        return found

    def roll_back(self, log: list[Stored], record: dict[Any, Any]) -> None:
        """What a replica that lacks the last writes has when it takes over."""
        self.store.sync.delete(self.keys.log, self.keys.record)
        for each in log:
            fields: Any = {"e": each.payload, "c": str(each.check)}
            self.store.sync.xadd(self.keys.log, fields, id=str(each.at))
        if record:
            self.store.sync.hset(self.keys.record, mapping=record)


@asynccontextmanager
async def journal(
    store: Store, job_id: str = "a1b2c3", policy: str = "auto"
) -> AsyncIterator[Journal]:
    commit = GroupCommit(store.aio())
    try:
        yield Journal(store, commit, job_id, policy)
    finally:
        await commit.close()


async def say(writer: Writer, *texts: str) -> None:
    """Each as an entry of its own."""
    for text in texts:
        writer.text(text)
        await writer.flush()
