"""An answer that is whole and can not be used is corrected once, in the same job."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from settings.model import Account
from tests.conftest import Store
from tests.harness.journal import CLAIM, SUBMIT
from tests.harness.lines import KEYS as LINE, Line
from worker.attempt.reading import Mark, Unusable
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Verdict, Work, Yielded
from worker.log import reader
from worker.log.claim import Claim, Point, claim_of
from worker.log.commit import GroupCommit
from worker.log.cursor import Cursor
from worker.log.entries import Tokens
from worker.log.stored import read_stored
from worker.log.verify import verify
from worker.log.view import Attempt as AttemptItem, Cut, End, Note
from worker.log.writer import Writer
from worker.outcomes import Outcome
from worker.store.keys import job_keys
from worker.upstream.failures import failure_of_answer
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Text, Usage
from worker.upstream.request import Message, Request

JOB = "a1b2c3"
KEYS = job_keys(JOB)
REQUEST = Request(model="m", messages=(Message("user", "?"),))


class Counting:
    """Wants the text to end with `done`, once; marks every exclamation mark."""

    def __init__(self, first: str | None = None) -> None:
        self._first = first
        self._text = ""

    def take(self, text: str) -> list[Mark]:
        self._text += text
        return [Mark(at + 1, "loud", str(at)) for at, char in enumerate(text) if char == "!"]

    def close(self) -> list[Mark]:
        return []

    def finish(self) -> str:
        if self._text.endswith("done") or self._first is not None:
            return f"{self._first}|{self._text}"
        raise Unusable("not done", "Please be done.", Counting(self._text))


class Provider:
    """Each stream says the next of `answers`; what is an exception is raised instead."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []

    async def stream_into(self, request: Request, _key: object, take: Take, **_: object) -> None:
        self.asked.append(request)
        self._say(take)

    async def resume_into(self, _key: object, _at: object, _said: str, take: Take) -> None:
        self._say(take)

    def _say(self, take: Take) -> None:
        for part in self._answers.pop(0):
            if isinstance(part, BaseException):
                raise part
            take([Text(part) if isinstance(part, str) else part])
        take([Usage(10, 0, 5, 1), Finished(Outcome.COMPLETED, None)])


class Job:
    """One submitted job, run attempt by attempt."""

    def __init__(self, store: Store, provider: Provider, policy: str = "auto") -> None:
        fields = ["task", "t", "model", "m", "pool", "p", "on_interrupt", policy]
        SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [0, 0, *fields])
        self._store, self._provider = store, provider
        self.line = Line(store.sync, {"a": Account(name="a")})
        self.line.submit(JOB)

    async def run(self) -> Verdict:
        (lease,) = self.line.ask().leases
        commit = GroupCommit(self._store.aio())
        work = Work(lease=lease, build=lambda: REQUEST, read=Counting)
        provider: Any = self._provider
        try:
            async with asyncio.timeout(10):
                return await Attempt(self.line.settings, "w1", commit, provider, work).run()
        finally:
            await commit.close()


def a_lease(store: Store) -> int:
    """The number of a lease that another worker was granted meanwhile."""
    number: Any = store.sync.incr(LINE.counter)
    return int(number)


def items(store: Store) -> list[Any]:
    return list(reader.tail(store.sync, JOB, wait=False))


async def test_the_answer_stays_and_the_correction_follows_it(store: Store) -> None:
    provider = Provider(["half "], ["rest done"])
    job = Job(store, provider)

    assert isinstance(await job.run(), Yielded)
    verdict = await job.run()

    assert verdict == Sealed(Outcome.COMPLETED, "", "half |rest done")
    assert reader.text_of(store.sync, JOB) == "half rest done"
    assert [m.role for m in provider.asked[1].messages] == ["user", "assistant", "user"]
    assert [m.content for m in provider.asked[1].messages] == ["?", "half ", "Please be done."]


async def test_readers_see_why_and_no_cut(store: Store) -> None:
    job = Job(store, Provider(["half "], ["done"]))
    await job.run()
    await job.run()

    seen = items(store)

    assert not [item for item in seen if isinstance(item, Cut)]
    (note,) = [item for item in seen if isinstance(item, Note)]
    assert (note.what, note.reason) == ("repair", "to be corrected: not done")
    modes = [(item.mode, item.reason) for item in seen if isinstance(item, AttemptItem)]
    assert modes == [("start", ""), ("repair", "to be corrected: not done")]
    assert verify(read_stored(store.sync.execute_command, KEYS.log), ended=True).ok


async def test_the_seal_has_the_tokens_of_both_answers(store: Store) -> None:
    job = Job(store, Provider(["half "], ["done"]))
    await job.run()
    await job.run()
    (end,) = [item for item in items(store) if isinstance(item, End)]
    assert end.usage == Tokens(input=20, output=10, reasoning=2)


async def test_there_is_one_correction_and_no_more(store: Store) -> None:
    provider = Provider(["half "], ["and half"])
    job = Job(store, provider)
    await job.run()
    assert await job.run() == Sealed(Outcome.COMPLETED, "", "half |and half")
    assert len(provider.asked) == 2


@pytest.mark.parametrize("policy", ["auto", "restart", "continue", "fail"])
async def test_a_worker_lost_before_its_correction_says_anything_costs_the_correction_alone(
    store: Store, policy: str
) -> None:
    provider = Provider(["half! "], ["done"])
    job = Job(store, provider, policy)
    await job.run()
    CLAIM.call(store.sync, [KEYS.log, KEYS.record], [2, "w2", "k", "run"])
    verdict = await job.run()
    assert verdict == Sealed(Outcome.COMPLETED, "", "half! |done")
    assert reader.text_of(store.sync, JOB) == "half! done"


async def test_a_correction_that_is_cut_begins_again_and_the_answer_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)
    provider = Provider(["half "], ["so", failure_of_answer(500, {}, b"")], ["done"])
    job = Job(store, provider)
    await job.run()
    assert isinstance(await job.run(), Yielded)
    had = items(store)[-1].cursor

    assert await job.run() == Sealed(Outcome.COMPLETED, "", "half |done")

    assert reader.text_of(store.sync, JOB) == "half done"
    behind = reader.tail(store.sync, JOB, Cursor.parse(had), wait=False)
    assert [item.offset for item in behind if isinstance(item, Cut)] == [len("half ")]


async def test_a_correction_that_goes_on_at_the_provider_is_taken_up_again(store: Store) -> None:
    job = Job(store, Provider(["half "], ["done"]))
    await job.run()
    commit = GroupCommit(store.aio())
    claim = claim_of(
        await commit.call(CLAIM, [KEYS.log, KEYS.record], [a_lease(store), "w2", "a", "run"])
    )
    assert isinstance(claim, Claim)
    dying = Writer(commit, KEYS, claim.attempt, claim.first, buffer_bytes=1 << 20, said="half ")
    dying.text("rest ")
    dying.resumable(msgspec.json.encode(Point("a", "r", 3)))
    await dying.flush()
    await commit.close()

    assert await job.run() == Sealed(Outcome.COMPLETED, "", "half |rest done")

    assert reader.text_of(store.sync, JOB) == "half rest done"
    assert not [item for item in items(store) if isinstance(item, Cut)]


async def test_names_that_a_reading_marks_are_notes_behind_their_last_character(
    store: Store,
) -> None:
    job = Job(store, Provider(["a!b", "!", "!c done"]))
    await job.run()
    offsets, text = [], ""
    for item in items(store):
        text += getattr(item, "text", "")
        if isinstance(item, Note):
            offsets.append((len(text), item.what))
    assert text == "a!b!!c done"
    assert offsets == [(2, "loud"), (4, "loud"), (5, "loud")]
