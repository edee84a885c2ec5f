"""A worker's parts when they really hang: it is told, and over when they move again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from settings.model import Account, Settings, WorkerSettings
from tests.harness.lines import Line
from tests.harness.valkey import Valkey
from tests.harness.waiting import wait_until
from worker.engine import Engine
from worker.seeing import vitals
from worker.seeing.vitals import Vitals
from worker.steps.feeder import Feeder
from worker.steps.keeper import Keeper
from worker.store.connections import connect


@pytest.fixture
def line(valkey: Valkey) -> Iterator[Line]:
    with connect(valkey.url) as client:
        client.flushall()
        yield Line(client, {"a": Account(name="a")})


@pytest.fixture
def settings(line: Line, valkey: Valkey) -> Settings:
    worker = WorkerSettings(lease_s=1.0, renew_s=0.1)
    return replace(line.settings, redis_url=valkey.url, worker=worker)


def ill(seen: Vitals) -> list[str]:
    return [check.check for check in seen.checks() if not check.ok]


def test_a_loop_that_hangs_and_a_line_that_is_not_served_are_told(
    line: Line, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals, "_GRACE_S", 0.5)
    monkeypatch.setattr(vitals, "SOCKET_TIMEOUT_S", 0.0)
    monkeypatch.setattr(vitals, "CONNECT_TIMEOUT_S", 0.0)
    monkeypatch.setattr(vitals, "BLOCK_S", 0.0)
    stuck, loose = threading.Event(), threading.Event()

    def publish(*_: object) -> None:
        stuck.set()
        assert loose.wait(30)

    engine = Engine(settings, "w1")
    keeper = Keeper(engine, lambda _: None, lambda _: None)
    feeder = Feeder(
        settings,
        "w1",
        publish=publish,
        cancel=lambda _: None,
        close=lambda _: None,
        discard=lambda _: None,
        revive=lambda _: 0,
    )
    seen = Vitals(settings.worker, engine, keeper, feeder)
    engine.start()
    with closing(engine), closing(keeper), closing(feeder):
        keeper.start()
        engine._loop.call_soon_threadsafe(time.sleep, 2.5)
        wait_until("the loop hangs", lambda: "loop" in ill(seen))
        wait_until("it turns again", lambda: "loop" not in ill(seen))

        line.submit("job")
        feeder.start()
        assert stuck.wait(20)
        wait_until("nobody asks the line", lambda: ill(seen) == ["feeder"])
        loose.set()
        feeder.quiet()
        wait_until("a feeder that is told to be quiet is well", lambda: ill(seen) == [])
