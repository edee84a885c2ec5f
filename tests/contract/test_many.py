"""Many logs over one connection: each is what a single reader would have got."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Store
from tests.harness.journal import AGES_S, journal, say
from worker.errors import UnknownJob
from worker.log import many, reader
from worker.log.many import tail_many
from worker.log.view import Cut, End, Status, Text


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_RUNNING_S", 0.01)
    monkeypatch.setattr(many, "_WAITING_S", 0.02)
    monkeypatch.setattr(many, "_UNREACHABLE_S", 0.02)


async def ended(store: Store, job_id: str, *texts: str) -> None:
    """A job whose first attempt dies behind its first text, and whose second ends."""
    async with journal(store, job_id) as job:
        await say(await job.writer(), texts[0])
        last = await job.writer()
        await say(last, *texts)
        await last.seal("completed", ages_s=AGES_S)


async def test_every_log_is_read_as_a_single_reader_reads_it(store: Store) -> None:
    jobs = {f"j{n}": [f"text {n} ", "and ", "so on"] for n in range(12)}
    for job_id, texts in jobs.items():
        await ended(store, job_id, *texts)
    found: dict[str, list[Any]] = {job_id: [] for job_id in jobs}
    for job_id, item in tail_many(store.sync, jobs):
        found[job_id].append(item)
    for job_id in jobs:
        assert found[job_id] == list(reader.tail(store.sync, job_id))


async def test_a_job_that_is_not_there_stops_nobody(store: Store) -> None:
    await ended(store, "here", "text")
    items = list(tail_many(store.sync, ["nowhere", "here"]))
    assert [type(item) for job_id, item in items if job_id == "nowhere"] == [UnknownJob]
    assert isinstance(items[-1][1], End)


async def test_what_comes_while_reading_is_read_and_a_restart_is_a_cut(store: Store) -> None:
    async with journal(store, "live") as job:
        first = await job.writer()
        await say(first, "one ")
        reading = tail_many(store.sync, ["live"])
        text = ""

        def until_next(kind: type) -> Any:
            nonlocal text
            for _, item in reading:
                if isinstance(item, Text):
                    text += item.text
                if isinstance(item, kind):
                    return item
            raise AssertionError("the log ended")

        until_next(Text)
        until_next(Status)
        second = await job.writer()
        await say(second, "two")
        assert until_next(Cut).offset == 0
        text = ""
        await second.seal("completed", ages_s=AGES_S)
        await asyncio.to_thread(until_next, End)
        assert text == "two"


def test_a_store_that_does_not_answer_is_said_and_waited_for(store: Store) -> None:
    if store.fake is None:
        pytest.skip("the fake server can be switched off")

    def seen() -> Iterator[Any]:
        assert store.fake is not None
        store.sync.hset("ls:{down}:job", mapping={"state": "waiting", "pool": "p"})
        store.fake.connected = False
        for job_id, item in tail_many(store.sync, ["down"]):
            store.fake.connected = True
            yield job_id, item

    items = seen()
    assert next(items) == (
        "",
        Status(state="unreachable", detail="Redis does not answer (ConnectionError)"),
    )
    job_id, item = next(items)
    assert (job_id, item.state) == ("down", "waiting")
