"""Submitting: the same job however often, and no job lost between its steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from settings.errors import LongstreamError
from settings.model import Settings
from tests.conftest import Store
from worker.cancel import cancel
from worker.keys import JOBS, SUBMITTING, job_keys, pool_keys
from worker.submission import Submission, now_ms, plain_message, resubmit_lost, submit

KEYS = pool_keys("p")


def job(job_id: str = "j1", prompt: str = "hello", wait_ms: int = 0) -> Submission:
    return Submission(
        job_id=job_id,
        task="tasks.generate",
        model="m",
        pool="p",
        label="generate",
        message=plain_message("tasks.generate", job_id, [prompt], {}),
        wait_ms=wait_ms,
    )


class Crash(Exception):
    """The submitting process dies here."""


class Dying:
    """A client whose process dies before its nth command."""

    def __init__(self, client: redis.Redis, commands: int) -> None:
        self._client = client
        self._left = commands

    def __getattr__(self, name: str) -> object:
        if self._left == 0:
            raise Crash
        self._left -= 1
        return getattr(self._client, name)


def test_the_same_id_twice_is_one_job(store: Store) -> None:
    submit(store.sync, job())
    submit(store.sync, job(prompt="another"))
    assert store.sync.zcard(KEYS.normal) == 1
    stored = store.sync.hget(job_keys("j1").record, "message")
    assert isinstance(stored, bytes)
    assert b"hello" in stored


def test_a_job_that_ended_does_not_enter_the_line_again(store: Store) -> None:
    submit(store.sync, job())
    store.sync.zrem(KEYS.normal, "j1")
    store.sync.hdel(KEYS.tickets, "j1")
    store.sync.hset(job_keys("j1").record, "state", "ended")
    submit(store.sync, job())
    assert store.sync.zcard(KEYS.normal) == 0


def test_wherever_a_submit_crashes_the_job_is_whole_or_never_was(store: Store) -> None:
    for commands in range(30):
        store.sync.flushall()
        try:
            submit(Dying(store.sync, commands), job())  # type: ignore[arg-type]
        except Crash:
            resubmit_lost(store.sync, older_than_ms=0)
            recorded = bool(store.sync.exists(job_keys("j1").record))
            assert store.sync.zcard(KEYS.normal) == int(recorded)
            assert not store.sync.exists(SUBMITTING)
            continue
        break
    else:
        pytest.fail("the submit never came to its end")
    assert commands > 5
    assert store.sync.zcard(KEYS.normal) == store.sync.zcard(JOBS) == 1
    assert not store.sync.exists(SUBMITTING)


def test_a_repeated_submit_repairs_a_crashed_one(store: Store) -> None:
    with pytest.raises(Crash):
        submit(Dying(store.sync, 4), job())  # type: ignore[arg-type]
    submit(store.sync, job())
    assert store.sync.zcard(KEYS.normal) == 1


@pytest.mark.parametrize("repaired_by", ["a worker", "a repeated submit"])
def test_a_job_for_later_is_for_later_although_its_submit_crashed(
    store: Store, repaired_by: str
) -> None:
    with pytest.raises(Crash):
        submit(Dying(store.sync, 4), job(wait_ms=60_000))  # type: ignore[arg-type]
    assert not store.sync.exists(KEYS.tickets)
    if repaired_by == "a worker":
        assert resubmit_lost(store.sync, older_than_ms=0) == ["j1"]
    else:
        submit(store.sync, job())
    assert not store.sync.exists(KEYS.normal)
    due = store.sync.zscore(KEYS.delayed, "j1")
    assert due is not None
    assert 55_000 < due - now_ms(store.sync) <= 60_000


class Slow:
    """A client that something overtakes before it puts its job into the line."""

    def __init__(self, client: redis.Redis, overtaking: Callable[[], None]) -> None:
        self._client = client
        self._overtaking = overtaking

    def execute_command(self, *args: object) -> object:
        if KEYS.tickets in args:
            self._overtaking()
            self._overtaking = lambda: None
        return self._client.execute_command(*args)  # type: ignore[no-untyped-call]

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)


def test_a_repeated_submit_that_the_end_of_its_job_overtakes_leaves_nothing_in_the_line(
    store: Store,
) -> None:
    submit(store.sync, job())

    def ends() -> None:
        store.sync.zrem(KEYS.normal, "j1")
        store.sync.hdel(KEYS.tickets, "j1")
        store.sync.hset(job_keys("j1").record, "state", "ended")

    submit(Slow(store.sync, ends), job())  # type: ignore[arg-type]
    assert not store.sync.exists(KEYS.normal, KEYS.tickets, SUBMITTING)


def test_a_submit_under_way_is_left_alone(store: Store) -> None:
    with pytest.raises(Crash):
        submit(Dying(store.sync, 4), job())  # type: ignore[arg-type]
    assert resubmit_lost(store.sync, older_than_ms=60_000) == []
    assert store.sync.exists(SUBMITTING)


class NoBackend:
    """Celery, to a test that looks at the store alone."""

    def __getattr__(self, name: str) -> NoBackend:
        return self

    def __call__(self, *_: object, **__: object) -> None:
        return None


def test_wherever_a_cancel_crashes_a_worker_still_comes_to_seal_the_job(store: Store) -> None:
    for commands in range(40):
        store.sync.flushall()
        submit(store.sync, job())
        try:
            cancel(NoBackend(), Dying(store.sync, commands), Settings(), "j1")  # type: ignore[arg-type]
        except Crash:
            resubmit_lost(store.sync, older_than_ms=0)
            state = store.sync.hget(job_keys("j1").record, "state")
            assert state == b"ended" or store.sync.zcard(KEYS.normal) == 1
            continue
        break
    else:
        pytest.fail("the cancel never came to its end")
    assert store.sync.hget(job_keys("j1").record, "outcome") == b"cancelled"
    assert not store.sync.exists(SUBMITTING)


@pytest.mark.parametrize("bad", ["", "a b", "{x}", "a\n", "x" * 129, "-x"])
def test_an_id_that_can_not_be_a_key_is_refused(store: Store, bad: str) -> None:
    with pytest.raises(LongstreamError, match="not a job id"):
        submit(store.sync, job(bad))
