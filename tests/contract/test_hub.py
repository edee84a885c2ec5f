"""The hub gives each of its readers what a reader alone would get, and reads each log once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.conftest import Store
from tests.harness.journal import AGES_S, Journal, journal, say
from tests.harness.valkey import Valkey
from worker.errors import UnknownJob
from worker.log import channel, reader, tracked
from worker.log.cursor import START, Cursor, CursorError
from worker.log.follow import LogExpired, Trimmed
from worker.log.hub import Hub, TooSlow
from worker.log.tracked import Answer, Want
from worker.log.view import Cut, End, Followed, Status, Superseded, Text
from worker.store.connections import connect
from worker.store.keys import job_keys


@pytest.fixture
def store(valkey: Valkey) -> Iterator[Store]:
    """A real server: what the server pushes is what is tested."""
    with connect(valkey.url) as client:
        client.flushall()
        yield Store(sync=client, url=valkey.url, fake=None)


@asynccontextmanager
async def opened(store: Store, url: str | None = None) -> AsyncIterator[Hub[Followed]]:
    assert store.url is not None
    async with Hub[Followed](url or store.url, lambda item: item) as hub:
        yield hub


class Reading:
    """One reader of a hub, in the background. `had` is the text it began with."""

    def __init__(
        self,
        hub: Hub[Followed],
        job_id: str,
        start: Cursor = START,
        *,
        raw: bool = False,
        had: str = "",
    ) -> None:
        self.reader = hub.reader(job_id, start, raw=raw)
        self.start = start
        self.raw = raw
        self.text = had
        self.items: list[Followed] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with aclosing(self.reader.batches()) as batches:
            async for batch in batches:
                for _, item in batch:
                    self.take(item)

    def take(self, item: Followed) -> None:
        self.items.append(item)
        if isinstance(item, Cut):
            self.text = self.text[: item.offset]
        elif isinstance(item, Text) and not self.raw:
            assert item.offset == len(self.text), "a hole or a repeat"
            self.text += item.text

    @property
    def logged(self) -> list[Followed]:
        return [item for item in self.items if not isinstance(item, Status)]

    async def until(self, text: str) -> None:
        async with asyncio.timeout(10):
            while self.text != text:
                await asyncio.sleep(0.005)

    async def leave(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def texts_of(batch: list[Any]) -> str:
    return "".join(item.text for _, item in batch if isinstance(item, Text))


async def live(hub: Hub[Followed]) -> None:
    """Until a reader has caught up with its log."""
    async with asyncio.timeout(10):
        while not hub.channels:
            await asyncio.sleep(0.005)


async def ended(*readings: Reading) -> None:
    async with asyncio.timeout(20):
        await asyncio.gather(*(reading.task for reading in readings))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(1, 30)),
        st.tuples(st.just("claim"), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 40)),
        st.tuples(st.just("read raw"), st.integers(0, 40)),
        st.tuples(st.just("pause"), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, policy=st.sampled_from(["auto", "continue", "restart"]))
def test_every_reader_gets_what_one_alone_would_get(
    store: Store, steps: list[tuple[str, int]], policy: str
) -> None:
    store.sync.flushall()
    asyncio.run(_story(store, steps, policy))


async def _story(store: Store, steps: list[tuple[str, int]], policy: str) -> None:
    async with journal(store, policy=policy) as job, opened(store) as hub:
        readings, said = [Reading(hub, job.job_id), Reading(hub, job.job_id, raw=True)], 0
        writer = await job.writer()
        for step, number in steps:
            if step == "say":
                said += 1
                await say(writer, *(f"{said}.{i} " for i in range(number)))
            elif step == "claim":
                writer = await job.writer()
            elif step == "pause":
                await asyncio.sleep(0.01)
            else:
                readings.append(_begun(hub, job, number, raw=step == "read raw"))
        await writer.seal("completed", ages_s=AGES_S)
        late = [Reading(hub, job.job_id), Reading(hub, job.job_id, raw=True)]
        await ended(*readings, *late)
        assert hub.channels == 0
        for reading in (*readings, *late):
            alone = list(reader.tail(store.sync, job.job_id, reading.start, raw=reading.raw))
            if reading.raw:
                assert reading.logged == alone
            else:
                assert reading.text == reader.text_of(store.sync, job.job_id)
                assert reading.logged[-1] == alone[-1]


def _begun(hub: Hub[Followed], job: Journal, number: int, *, raw: bool) -> Reading:
    """A reader that comes with the cursor and the text of one that left."""
    items = list(reader.tail(job.store.sync, job.job_id, raw=raw, wait=False))[:number]
    had, start = "", START
    for item in items:
        if isinstance(item, Text) and not raw:
            had += item.text
        start = Cursor.parse(item.cursor) if hasattr(item, "cursor") else start
    return Reading(hub, job.job_id, start, raw=raw, had=had)


async def test_a_log_is_read_once_however_many_follow_it(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        readings = [Reading(hub, job.job_id) for _ in range(200)]
        await say(writer, "now ")
        await asyncio.gather(*(reading.until("now ") for reading in readings))
        connections = len(store.sync.client_list())
        before = hub.reads.reads
        for number in range(50):
            await say(writer, f"{number} ")
        await writer.seal("completed", ages_s=AGES_S)
        await ended(*readings)
        assert len({reading.text for reading in readings}) == 1
        # One for each entry; a second may pass as well.
        assert hub.reads.reads - before <= 51 + 4
        assert len(store.sync.client_list()) == connections


async def test_a_silent_log_is_not_read_because_another_has_news(store: Store) -> None:
    async with journal(store, "busy") as busy, opened(store) as hub:
        quiet = []
        for number in range(40):
            async with journal(store, f"quiet{number}") as job:
                await say(await job.writer(), "x")
            quiet.append(Reading(hub, f"quiet{number}"))
        writer = await busy.writer()
        reading = Reading(hub, "busy")
        await asyncio.gather(*(each.until("x") for each in quiet))
        await say(writer, "a")
        await reading.until("a")
        before, began = hub.reads.reads, asyncio.get_running_loop().time()
        for _ in range(100):
            await say(writer, "b")
        await reading.until("a" + 100 * "b")
        took_s = asyncio.get_running_loop().time() - began
        assert hub.reads.reads - before <= 100 + 41 * (took_s + 2)
        for each in (*quiet, reading):
            await each.leave()
        assert hub.channels == 0


async def test_a_reader_that_leaves_takes_no_other_with_it(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        readings = [Reading(hub, job.job_id) for _ in range(20)]
        await say(writer, "a")
        await asyncio.gather(*(reading.until("a") for reading in readings))
        for reading in readings[::2]:
            await reading.leave()
        await say(writer, "b")
        await writer.seal("completed", ages_s=AGES_S)
        await ended(*readings[1::2])
        assert {reading.text for reading in readings[1::2]} == {"ab"}
        assert hub.channels == 0


async def test_what_fails_for_the_readers_of_one_log_fails_no_other(store: Store) -> None:
    def shape(item: Followed) -> Followed:
        if isinstance(item, Text) and item.text == "unshapely":
            raise ZeroDivisionError
        return item

    assert store.url is not None
    async with (
        journal(store) as good,
        journal(store, job_id="bad") as bad,
        Hub[Followed](store.url, shape) as hub,
    ):
        writers = [await good.writer(), await bad.writer()]
        readings = [Reading(hub, good.job_id), Reading(hub, bad.job_id)]
        async with asyncio.timeout(10):
            while hub.channels < 2:
                await asyncio.sleep(0.005)
            await say(writers[1], "unshapely")
            with pytest.raises(ZeroDivisionError):
                await readings[1].task
        await say(writers[0], "goes on")
        await readings[0].until("goes on")
        await readings[0].leave()


async def test_a_slow_reader_is_dropped_with_its_cursor_and_holds_nobody_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_KEPT_BYTES", 10_000)
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        await say(writer, "first ")
        slow = hub.reader(job.job_id)
        batches = slow.batches()
        had = texts_of(await anext(batches))
        await anext(batches)
        last = asyncio.ensure_future(anext(batches))
        await live(hub)
        quick = Reading(hub, job.job_id)
        for number in range(400):
            await say(writer, f"{number} ")
        await writer.seal("completed", ages_s=AGES_S)
        await ended(quick)
        had += texts_of(await last)
        with pytest.raises(TooSlow) as dropped:
            await anext(batches)
        again = Reading(hub, job.job_id, Cursor.parse(dropped.value.cursor), had=had)
        await ended(again)
        assert again.text == quick.text == reader.text_of(store.sync, job.job_id)


async def test_a_lost_connection_costs_nothing_and_is_told(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        reading = Reading(hub, job.job_id)
        await say(writer, "before ")
        await reading.until("before ")
        await live(hub)
        for client in store.sync.client_list():
            if client["cmd"] == "xread":
                store.sync.client_kill(client["addr"])
        await say(writer, "after")
        await reading.until("before after")
        await writer.seal("completed", ages_s=AGES_S)
        await ended(reading)
        assert any(isinstance(i, Status) and i.state == "unreachable" for i in reading.items)


async def test_a_read_that_was_lost_is_given_no_answer_of_another(
    store: Store, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked, "SOCKET_TIMEOUT_S", 0.2)
    pid = valkey.daemon.pid()
    assert pid is not None
    async with journal(store) as one, journal(store, job_id="two") as two, opened(store) as hub:
        await say(await one.writer(), "one")
        await say(await two.writer(), "two")
        answers: dict[str, list[Answer]] = {one.job_id: [], "two": []}

        async def asked(job_id: str, before: int) -> None:
            log = job_keys(job_id).log
            hub.reads.want(Want(log, "1-0", answers[job_id].append))
            async with asyncio.timeout(10):
                while len(answers[job_id]) == before:
                    await asyncio.sleep(0.005)

        await asked(one.job_id, 0)
        os.kill(pid, signal.SIGSTOP)
        try:
            await asked(one.job_id, 1)
        finally:
            os.kill(pid, signal.SIGCONT)
        await asked("two", 0)
        _, lost = answers[one.job_id]
        ((read,),) = answers["two"]
        assert isinstance(lost, Exception)
        assert isinstance(read, tuple)
        assert read[0] == job_keys("two").log.encode()


async def test_a_server_without_tracking_is_followed_as_well(store: Store, valkey: Valkey) -> None:
    store.sync.execute_command(
        "ACL", "SETUSER", "plain", "on", ">word", "~*", "&*", "+@all", "-client|tracking"
    )
    path = valkey.url.removeprefix("unix://")
    async with journal(store) as job, opened(store, f"unix://plain:word@{path}") as hub:
        writer = await job.writer()
        reading = Reading(hub, job.job_id)
        for number in range(5):
            await say(writer, f"{number} ")
            await reading.until("".join(f"{i} " for i in range(number + 1)))
        await writer.seal("completed", ages_s=AGES_S)
        await ended(reading)


async def test_a_log_that_a_failover_rolled_back_is_begun_again_by_all(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        await say(writer, "kept ")
        log, record = job.log(), job.record()
        await say(writer, "lost")
        readings = [Reading(hub, job.job_id) for _ in range(3)]
        await asyncio.gather(*(reading.until("kept lost") for reading in readings))
        job.roll_back(log, record)
        other = await job.writer("w2")
        await say(other, "another")
        await other.seal("completed", ages_s=AGES_S)
        await ended(*readings)
        for reading in readings:
            assert reading.text == reader.text_of(store.sync, job.job_id)
            assert any(isinstance(item, Superseded) for item in reading.items)


async def test_a_reader_behind_the_seal_hears_at_once_how_the_job_ended(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        await say(writer, "x")
        await writer.seal("completed", ages_s=AGES_S)
        seal = job.log()[-1].at
        reading = Reading(hub, job.job_id, seal)
        async with asyncio.timeout(0.8):
            await reading.task
        assert [type(item) for item in reading.items] == [End]
        assert reading.reader.cursor == str(seal)


async def _refused(hub: Hub[Followed], *where: Any) -> Exception:
    reading = Reading(hub, *where)
    with pytest.raises((UnknownJob, CursorError, Trimmed)) as refused:
        await asyncio.wait_for(reading.task, 10)
    return refused.value


async def test_what_can_not_be_read_is_refused_as_to_a_reader_alone(store: Store) -> None:
    async with journal(store) as job, opened(store) as hub:
        writer = await job.writer()
        await say(writer, "a", "b", "c")
        assert isinstance(await _refused(hub, "nojob"), UnknownJob)
        assert isinstance(await _refused(hub, job.job_id, Cursor(9, 9)), CursorError)
        store.sync.xdel(job.keys.log, "1-2")
        assert isinstance(await _refused(hub, job.job_id), Trimmed)
        await writer.seal("completed", ages_s=AGES_S)
        store.sync.delete(job.keys.log)
        assert isinstance(await _refused(hub, job.job_id), LogExpired)
        assert hub.channels == 0
