"""The feeder: which wake-ups it takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from settings.model import Account
from tests.conftest import Store
from tests.harness.lines import KEYS, Line
from tests.harness.waiting import wait_until
from worker.steps.feeder import Feeder


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_worker_that_is_shutting_down_leaves_wake_ups_to_others(store: Store) -> None:
    """It sleeps on the server when it is told to stop, and is the first to hear of the next job."""
    line = Line(store.sync, {"a": Account(name="a")})
    feeding = Feeder(
        replace(line.settings, redis_url=store.url),
        "w1",
        publish=lambda *_: None,
        cancel=lambda _: None,
        discard=lambda _: None,
    )
    feeding.start()
    wait_until(
        "it sleeps", lambda: any(each["cmd"] == "blpop" for each in store.sync.client_list())
    )
    feeding.quiet()
    line.submit("j")
    wait_until("it ends", lambda: not feeding._thread.is_alive())
    assert store.sync.llen(KEYS.nudge) == 1
