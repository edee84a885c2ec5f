"""Wherever a worker dies, the answer is whole, and every response of a provider is read to its end
or stopped, and booked once.

A worker dies at each of its calls to the store in turn, the next one at another; one drains.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from settings.model import Account, Key
from tests.conftest import Store
from tests.contract.test_runner import JOB, KEYS, REQUEST
from tests.harness.journal import SUBMIT
from tests.harness.lines import KEYS as LINE, POOL, Line
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Stop, Verdict, Work
from worker.ledger.spending import Spending
from worker.log import reader
from worker.log.commit import GroupCommit
from worker.outcomes import Outcome
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Resumable, Text, Usage

pytestmark = pytest.mark.parametrize("store", ["fakeredis"], indirect=True)

PIECES = ("one ", "two ", "three")
#: No life makes so many calls.
LONG = 10**6


class Killed(BaseException):
    """Nothing of the process goes on: no handler of ours runs, and none can reach the store."""


class Life:
    """Of one worker process: so many calls of the store."""

    def __init__(self, calls: int) -> None:
        self._left = calls
        self.over = asyncio.Event()

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.over.set()
        self.check()

    def check(self) -> None:
        if self.over.is_set():
            raise Killed


class Mortal:
    """A connection to the store that ends with its process."""

    def __init__(self, commit: GroupCommit, life: Life) -> None:
        self._commit, self._life = commit, life

    def send(self, call: Any) -> None:
        try:
            self._life.count()
        except Killed:
            return
        self._commit.send(_Sent(call, self._life))  # type: ignore[arg-type]

    async def call(self, *args: Any) -> Any:
        self._life.count()
        return await self._commit.call(*args)

    async def command(self, *args: Any) -> Any:
        self._life.count()
        return await self._commit.command(*args)


class _Sent:
    def __init__(self, call: Any, life: Life) -> None:
        self._call, self._life = call, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def done(self, reply: Any) -> None:
        if not self._life.over.is_set():
            self._call.done(reply)


@dataclass
class Provider:
    """What it has generated, read to the end or stopped. A response of number n has used n tokens,
    and 100 more when it was read to its end."""

    begun: int = 0
    finished: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)

    def used(self, number: int) -> Usage:
        return Usage(1, 0, number + 100 * (number in self.finished), 0)


class Client:
    """A worker's way to the provider."""

    def __init__(self, provider: Provider, life: Life) -> None:
        self._provider, self._life = provider, life

    async def stream_into(self, _request: object, _key: Key, take: Take, **_: Any) -> None:
        self._provider.begun += 1
        await self._read(self._provider.begun, 0, take)

    async def resume_into(self, _key: Key, at: Resumable, _said: str, take: Take) -> None:
        assert int(at.response_id) not in self._provider.stopped
        await self._read(int(at.response_id), at.sequence, take)

    async def cancel(self, _key: Key, response_id: str) -> Usage:
        self._life.check()
        self._provider.stopped.add(int(response_id))
        return self._provider.used(int(response_id))

    async def _read(self, number: int, behind: int, take: Take) -> None:
        for at, piece in enumerate(PIECES[behind:], behind + 1):
            self._life.check()
            take([Text(piece), Resumable(str(number), at)])
            for _ in range(6):
                await asyncio.sleep(0)
        self._life.check()
        self._provider.finished.add(number)
        take([self._provider.used(number), Finished(Outcome.COMPLETED, None)])


class World:
    """One job, and the workers that get it one after the other."""

    def __init__(self, store: Store, policy: str) -> None:
        self.store, self.provider = store, Provider()
        store.sync.flushall()
        fields = ["task", "t", "model", "m", "pool", POOL, "on_interrupt", policy]
        SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [0, 0, *fields])
        self.line = Line(store.sync, {"a": Account(name="a")})
        self.line.submit(JOB)
        #: Responses whose ids have ever been stored: of others nobody can know.
        self.known: set[int] = set()

    async def live(self, calls: int, *, drains: bool) -> Verdict | None:
        """One worker; None when it died."""
        # Whoever held the job is dead.
        self.store.sync.zadd(LINE.leases, {JOB: 1}, xx=True)
        (lease,) = self.line.ask().leases
        life = Life(calls)
        work = Work(lease=lease, build=lambda: REQUEST, read=lambda: Whole(str))
        async with self._connected(life) as mortal:
            client: Any = Client(self.provider, life)
            attempt = Attempt(self.line.settings, "w1", mortal, client, work)
            if drains:
                asyncio.get_running_loop().call_later(0.001, attempt.stop, Stop.DRAIN)
            return await self._lived(asyncio.ensure_future(attempt.run()), life)

    async def _lived(self, running: asyncio.Task[Verdict], life: Life) -> Verdict | None:
        over = asyncio.ensure_future(life.over.wait())
        await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
        self._note_known()
        died = life.over.is_set()
        life.over.set()
        running.cancel()
        (verdict, *_) = await asyncio.gather(running, over, return_exceptions=True)
        return None if died or isinstance(verdict, BaseException) else verdict

    @asynccontextmanager
    async def _connected(self, life: Life) -> AsyncIterator[Any]:
        commit = GroupCommit(self.store.aio())
        try:
            yield Mortal(commit, life)
        finally:
            await commit.close()

    def _note_known(self) -> None:
        resume, left = self.store.sync.hmget(KEYS.record, "resume", "left")  # type: ignore[misc]
        points = [msgspec.json.decode(resume)] if resume else []
        points += msgspec.json.decode(left).values() if left else []
        self.known |= {int(point["response_id"]) for point in points}

    def check(self, policy: str) -> None:
        raw: Any = self.store.sync.hgetall(KEYS.record)
        assert raw[b"state"] == b"ended"
        if raw[b"outcome"] == b"completed" and policy != "continue":
            assert reader.text_of(self.store.sync, JOB) == "".join(PIECES)
        responses = self.known | self.provider.finished
        assert self.known <= self.provider.finished | self.provider.stopped
        assert b"left" not in raw
        values = [value for name, value in raw.items() if name.startswith(b"spent:")]
        spent = [msgspec.json.decode(value, type=Spending) for value in values]
        told = [each.tokens.output for each in spent if not each.estimated]
        assert sorted(told) == sorted(self.provider.used(each).output_tokens for each in responses)
        assert int(raw[b"booked"]) == max(each.attempt for each in spent)


@pytest.mark.parametrize("drains", [None, 0, 1])
@pytest.mark.parametrize("policy", ["auto", "restart", "continue", "fail"])
async def test_wherever_workers_die_every_response_ends_and_is_booked_once(
    store: Store, policy: str, drains: int | None
) -> None:
    once = [[calls] for calls in range(13)]
    twice = [[first, second] for first in (3, 5) for second in (1, 4, 7)]
    for deaths in [*once, *twice]:
        world = World(store, policy)
        for number, calls in zip(itertools.count(), [*deaths, LONG, LONG, LONG], strict=False):
            verdict = await world.live(calls, drains=number == drains)
            if isinstance(verdict, Sealed):
                break
        world.check(policy)
