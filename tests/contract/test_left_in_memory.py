"""An attempt that ended is gone at once, however it ended: it held all its text, and a collector
that had to find it would look at everything that a thousand streams keep."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from settings.model import Account, Clocks, Key
from settings.secret import Secret
from tests.conftest import Store
from tests.harness.journal import SUBMIT
from tests.harness.lines import Line
from tests.harness.wire import DONE, END, HANG, RESET, Script, WireServer, chunk, delta, head, plain
from worker.attempt.pump import Pump
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Stop, Work
from worker.log.commit import GroupCommit
from worker.log.writer import Writer
from worker.store.keys import job_keys
from worker.upstream.answer import Answer
from worker.upstream.client import Client
from worker.upstream.request import Message, Request

ON = ("engine",)

JOB = "a1b2c3"
KEYS = job_keys(JOB)
REQUEST = Request(model="m", messages=(Message("user", "?"),))
#: What holds text. A cancelled request leaves frames of the HTTP library, which hold each other.
HELD = (Attempt, Pump, Writer, Answer)

TEXT = [head(), chunk(delta(content="a")), chunk(delta(content="b"))]
WAYS: dict[str, Script] = {
    "whole": [*TEXT, chunk(delta("stop") + DONE) + END],
    "cut": TEXT,
    "reset": [*TEXT, RESET],
    "broken": [*TEXT, b"no chunk\n"],
    "silent": [*TEXT, HANG],
    "refused": [plain("400 Bad", b'{"error": {"message": "no"}}')],
    "limited": [plain("429 No", b"{}")],
    "nothing": [],
    "mute": [HANG],
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def attempt(store: Store, commit: GroupCommit, client: Client, server: WireServer) -> Attempt:
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [0, 0, "task", "t", "pool", "p"])
    key = Key(
        alias="k", provider="generic", base_url=server.base_url, secret=Secret("s"), account="k"
    )
    line = Line(store.sync, {"k": Account(name="k")}, (key,))
    line.submit(JOB)
    (lease,) = line.ask().leases
    work = Work(lease=lease, build=lambda: REQUEST, read=lambda: Whole(str))
    return Attempt(line.settings, "w1", commit, client, work)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_an_attempt_that_ended_is_gone_at_once(store: Store, way: str, stopped: bool) -> None:
    commit = GroupCommit(store.aio())
    clocks = Clocks(headers_s=0.3, bytes_idle_s=0.3, progress_idle_s=0.3)
    async with Client(clocks) as client, WireServer(WAYS[way]) as server:
        running = attempt(store, commit, client, server)
        ending = asyncio.create_task(running.run())
        if stopped:
            while not server.requests:
                await asyncio.sleep(0.002)
            running.stop(Stop.CANCEL)
        async with asyncio.timeout(10):
            await ending
            del running, ending
            while client.open_streams:
                await asyncio.sleep(0.002)
        await asyncio.sleep(0)

        left = [each for each in gc.get_objects() if isinstance(each, HELD)]

        assert [type(each).__name__ for each in left] == []
    await commit.close()
