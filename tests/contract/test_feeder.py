"""The feeder: which wake-ups it takes."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest
import redis
from msgspec.structs import replace

from settings.model import Account, Settings
from tests.conftest import Store
from tests.harness.lines import KEYS, POOL, Line
from tests.harness.waiting import wait_until
from worker.steps.feeder import Feeder
from worker.store.connections import now_ms
from worker.store.keys import inbox_key


def feeder(
    settings: Settings,
    publish: Callable[..., None] = lambda *_: None,
    running: Callable[[], int] | None = None,
    listening: Callable[[], bool] = lambda: True,
) -> Feeder:
    """One that has nothing to cancel, to discard or to revive."""
    return Feeder(
        settings,
        "w1",
        publish=publish,
        cancel=lambda _: None,
        close=lambda _: None,
        discard=lambda _: None,
        revive=lambda _: 0,
        running=running,
        listening=listening,
    )


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_worker_that_is_shutting_down_leaves_wake_ups_to_others(store: Store) -> None:
    """It sleeps on the server when it is told to stop, and is the first to hear of the next job."""
    line = Line(store.sync, {"a": Account(name="a")})
    feeding = feeder(replace(line.settings, redis_url=store.url))
    feeding.start()
    wait_until(
        "it sleeps", lambda: any(each["cmd"] == "blpop" for each in store.sync.client_list())
    )
    feeding.quiet()
    line.submit("j")
    wait_until("it ends", lambda: not feeding._thread.is_alive())
    assert store.sync.llen(KEYS.nudge) == 1


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (OSError("the broker is away"), 1),
        (redis.ConnectionError("the broker is away"), 1),
        (redis.ResponseError("WRONGTYPE the record is none"), 60),
    ],
)
def test_a_job_that_can_not_be_published_waits_a_moment(
    store: Store, error: Exception, wait_s: int
) -> None:
    """Granted again at once it would fail again at once, as often as a processor can."""
    line = Line(store.sync, {"a": Account(name="a")})

    def publish(*_: object) -> None:
        raise error

    feeding = feeder(line.settings, publish)
    line.submit("j")
    feeding._ask(store.sync)
    due = store.sync.zscore(KEYS.delayed, "j")
    assert due is not None
    assert (wait_s - 1) * 1000 < due - now_ms(store.sync) <= wait_s * 1000
    assert not store.sync.exists(KEYS.held)


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_feeder_that_is_closed_leaves_no_word_for_ever(store: Store) -> None:
    """Also when it ended a moment before it was told to."""
    line = Line(store.sync, {"a": Account(name="a")})
    feeding = feeder(replace(line.settings, redis_url=store.url))
    feeding._thread = Thread(target=lambda: None)
    feeding._thread.is_alive = lambda: True  # type: ignore[method-assign]
    feeding._thread.start()
    feeding.close()
    assert store.sync.ttl(inbox_key(POOL, "w1")) > 0


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_worker_takes_no_more_jobs_than_it_can_begin_in_time(store: Store) -> None:
    """What it is handed it must begin within the hand-off time, however many slots it has."""
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit(*(f"j{number}" for number in range(200)))
    begun, handed = [0], []
    many = replace(line.settings.worker, concurrency=1000)
    feeding = feeder(
        replace(line.settings, redis_url=store.url, worker=many),
        publish=lambda _, lease: handed.append(lease.job_id),
        running=lambda: begun[0],
    )
    feeding.start()
    wait_until("some are handed over", lambda: len(handed) == 64)
    begun[0] = 40
    wait_until("as many more as have begun", lambda: len(handed) == 104)
    begun[0] = 104
    wait_until("the rest", lambda: len(handed) == 168)
    feeding.close()
    assert len(handed) == 168


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_a_worker_that_is_cut_off_from_the_broker_leaves_jobs_to_others(store: Store) -> None:
    """What it was handed would wait for its hand-off time; it takes jobs again when it can."""
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit("j")
    listens, handed = [False], []
    feeding = feeder(
        replace(line.settings, redis_url=store.url),
        publish=lambda _, lease: handed.append(lease.job_id),
        running=lambda: 0,
        listening=lambda: listens[0],
    )
    feeding.start()
    calls = feeding._granted
    asked: list[int] = []
    feeding._granted = lambda *args: asked.append(1) or calls(*args)  # type: ignore[method-assign, func-returns-value]
    wait_until("it has asked twice", lambda: len(asked) > 1)
    assert handed == []
    listens[0] = True
    wait_until("it takes the job", lambda: handed == ["j"])
    feeding.close()
