"""Another model is asked when one is not served, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from settings.model import Account, Settings
from tests.conftest import Store
from tests.harness.journal import SUBMIT
from tests.harness.lines import Line
from worker.attempt.fallback import fallbacks_of
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Verdict, Work, Yielded
from worker.job.records import Record, parse_record
from worker.log import reader
from worker.log.commit import GroupCommit
from worker.outcomes import Outcome
from worker.store.keys import job_keys
from worker.upstream.failures import UpstreamFailure
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Text, Usage
from worker.upstream.request import Message, Request

JOB = "a1b2c3"
KEYS = job_keys(JOB)


class Provider:
    """Serves one model; of the others it says what it is told, after some text if told so."""

    def __init__(self, serves: str, kind: str, text: str = "") -> None:
        self._serves = serves
        self._kind = kind
        self._text = text
        self.asked: list[str] = []

    async def stream_into(self, request: Request, _key: object, take: Take, **_: object) -> None:
        self.asked.append(request.model)
        if request.model == self._serves:
            take([Text("answer"), Usage(3, 0, 5, 0), Finished(Outcome.COMPLETED, None)])
            return
        if self._text:
            take([Text(self._text)])
        raise UpstreamFailure(
            "no",
            kind=self._kind,
            fault="provider",
            retryable=self._kind == "overloaded",
            status=503,
        )


async def attempt(store: Store, provider: Provider) -> Verdict:
    fields = ["task", "t", "model", "first", "pool", "p"]
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [0, 0, *fields])
    store.sync.hset(
        KEYS.record,
        "ticket",
        '{"tenant":"acme","class":"normal","model":"first","kind":"","prompt":1}',
    )
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit(JOB)
    (lease,) = line.ask().leases
    work = Work(
        lease=lease,
        build=lambda: Request(model="first", messages=(Message("user", "?"),)),
        read=lambda: Whole(lambda text: text),
    )
    settings = Settings(
        pools=line.settings.pools, fallbacks={"first": ("second", "third"), "a-*": ("b",)}
    )
    commit = GroupCommit(store.aio())
    try:
        async with asyncio.timeout(20):
            running = Attempt(settings, "w1", commit, provider, work)  # type: ignore[arg-type]
            return await running.run()
    finally:
        await commit.close()


def record(store: Store) -> Record:
    raw: Any = store.sync.hgetall(KEYS.record)
    found = parse_record(JOB, raw)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["overloaded", "not_found"])
async def test_the_next_model_is_asked_and_the_result_says_who_answered(
    store: Store, kind: str
) -> None:
    provider = Provider("third", kind)

    verdict = await attempt(store, provider)

    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, verdict.result) == (Outcome.COMPLETED, "answer")
    assert provider.asked == ["first", "second", "third"]
    found = record(store)
    assert (found.model, found.served_by) == ("first", "third")
    (spent,) = found.spent
    assert (spent.model, spent.tokens.output) == ("third", 5)
    told = [each for each in reader.tail(store.sync, JOB, raw=True) if "fallback" in str(each)]
    assert len(told) == 2


@pytest.mark.parametrize("kind", ["filtered", "bad_request", "rate_limited", "bad_key"])
async def test_a_refusal_of_the_request_itself_asks_nobody_else(store: Store, kind: str) -> None:
    provider = Provider("second", kind)

    await attempt(store, provider)

    assert provider.asked == ["first"]
    assert record(store).served_by == ""


async def test_what_has_begun_to_answer_is_not_replaced(store: Store) -> None:
    provider = Provider("second", "overloaded", text="so far")

    verdict = await attempt(store, provider)

    assert isinstance(verdict, Yielded)
    assert provider.asked == ["first"]


async def test_when_nobody_serves_it_the_job_waits_as_without_fallbacks(store: Store) -> None:
    provider = Provider("nobody", "overloaded")

    verdict = await attempt(store, provider)

    assert isinstance(verdict, Yielded)
    assert provider.asked == ["first", "second", "third"]
    assert record(store).state == "waiting"


def test_only_models_the_pool_serves_are_asked(store: Store) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    settings = Settings(pools=line.settings.pools, fallbacks={"a-*": ("b",)})

    assert fallbacks_of(settings, "p", "a-1") == ["b"]
    assert fallbacks_of(settings, "p", "b") == []
    assert fallbacks_of(settings, "elsewhere", "a-1") == []
