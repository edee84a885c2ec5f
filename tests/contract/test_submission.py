"""Submitting: the same job however often, and no job lost between its steps."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from settings.errors import LongstreamError
from settings.model import Settings
from tests.conftest import Store
from tests.contract.test_cancel import Backend
from worker.job.cancel import cancel, finish, withdraw_and_seal
from worker.job.submission import Submission
from worker.job.submitting import Found, submit, submit_all, sweep
from worker.messages.message import plain_message
from worker.store.connections import now_ms
from worker.store.keys import JOBS, SUBMITTING, job_keys, pool_keys

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


class Wire:
    """A client whose pipelines are played one command after the other, as a server may see them."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def execute_command(self, *args: Any) -> Any:
        return self.client.execute_command(*args)  # type: ignore[no-untyped-call]

    def pipeline(self, **_: Any) -> Played:
        return Played(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


class Played:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._commands: list[tuple[Any, ...]] = []

    def execute_command(self, *args: Any) -> None:
        self._commands.append(args)

    def execute(self, **_: Any) -> list[Any]:
        return [self._reply(command) for command in self._commands]

    def _reply(self, command: tuple[Any, ...]) -> Any:
        try:
            return self._wire.execute_command(*command)
        except redis.RedisError as error:
            return error


class Dying(Wire):
    """A client whose process dies before its nth command."""

    def __init__(self, client: redis.Redis, commands: int) -> None:
        super().__init__(client)
        self._left = commands

    def _count(self) -> None:
        if self._left == 0:
            raise Crash
        self._left -= 1

    def execute_command(self, *args: Any) -> Any:
        self._count()
        return super().execute_command(*args)

    def __getattr__(self, name: str) -> Any:
        self._count()
        return super().__getattr__(name)


class Slow(Wire):
    """A client that something overtakes before it puts its job into the line."""

    def __init__(self, client: redis.Redis, overtaking: Callable[[], None]) -> None:
        super().__init__(client)
        self._overtaking = overtaking

    def execute_command(self, *args: Any) -> Any:
        if KEYS.tickets in args:
            self._overtaking()
            self._overtaking = lambda: None
        return super().execute_command(*args)


def die() -> None:
    raise Crash


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
            sweep(store.sync, older_than_ms=0)
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


def test_a_submit_takes_three_round_trips(store: Store) -> None:
    submit(store.sync, job("before"))
    trips = []

    class Counting(Wire):
        def pipeline(self, **_: Any) -> Played:
            trips.append("pipeline")
            return super().pipeline()

        def __getattr__(self, name: str) -> Any:
            trips.append(name)
            return super().__getattr__(name)

    submit(Counting(store.sync), job())  # type: ignore[arg-type]
    assert trips == ["pipeline"] * 3


def test_many_jobs_take_no_more_round_trips_than_one(store: Store) -> None:
    submit_all(store.sync, [job(f"j{number}", wait_ms=number % 2) for number in range(20)])
    assert store.sync.zcard(KEYS.normal) == store.sync.zcard(KEYS.delayed) == 10
    assert store.sync.zcard(JOBS) == 20
    assert not store.sync.exists(SUBMITTING)


def test_one_that_can_not_be_submitted_keeps_back_those_submitted_with_it(store: Store) -> None:
    with pytest.raises(LongstreamError):
        submit_all(store.sync, [job("fine"), job("not fine")])
    assert store.sync.keys() == []


def test_an_index_forgets_jobs_that_have_no_record_any_more(store: Store) -> None:
    for number in range(6):
        submit(store.sync, job(f"old{number}"))
        store.sync.delete(job_keys(f"old{number}").record)
    submit_all(store.sync, [job("a"), job("b"), job("c")])
    assert store.sync.zcard(JOBS) <= 4


def test_a_repeated_submit_repairs_a_crashed_one(store: Store) -> None:
    with pytest.raises(Crash):
        submit(Slow(store.sync, die), job())  # type: ignore[arg-type]
    submit(store.sync, job())
    assert store.sync.zcard(KEYS.normal) == 1


@pytest.mark.parametrize("repaired_by", ["a worker", "a repeated submit"])
def test_a_job_for_later_is_for_later_although_its_submit_crashed(
    store: Store, repaired_by: str
) -> None:
    with pytest.raises(Crash):
        submit(Slow(store.sync, die), job(wait_ms=60_000))  # type: ignore[arg-type]
    assert not store.sync.exists(KEYS.tickets)
    if repaired_by == "a worker":
        assert sweep(store.sync, older_than_ms=0).entered == ("j1",)
    else:
        submit(store.sync, job())
    assert not store.sync.exists(KEYS.normal)
    due = store.sync.zscore(KEYS.delayed, "j1")
    assert due is not None
    assert 55_000 < due - now_ms(store.sync) <= 60_000


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
    assert sweep(store.sync, older_than_ms=60_000) == Found((), ())
    assert store.sync.exists(SUBMITTING)


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_wherever_a_cancel_crashes_a_worker_still_comes_to_end_the_job(
    store: Store, state: str
) -> None:
    """Also one whose worker had died; and whoever waits for its result hears of it."""
    for commands in range(40):
        store.sync.flushall()
        submit(store.sync, job())
        store.sync.hset(job_keys("j1").record, "state", state)
        celery: Any = SimpleNamespace(backend=Backend())
        try:
            cancel(celery, Dying(store.sync, commands), Settings(), "j1")  # type: ignore[arg-type]
        except Crash:
            found = sweep(store.sync, older_than_ms=0)
            for job_id in found.cancelled:
                finish(
                    celery,
                    store.sync,
                    job_id,
                    lambda: withdraw_and_seal(store.sync, Settings(), "j1"),
                )
            outcome = store.sync.hget(job_keys("j1").record, "outcome")
            untouched = store.sync.zcard(KEYS.normal) == 1
            assert untouched or (outcome == b"cancelled" and "j1" in celery.backend.revoked)
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
