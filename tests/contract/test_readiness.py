"""Whether work gets done, judged on the scripts' own state in a real store."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from msgspec.structs import replace

from settings.model import Account
from tests.harness.lines import POOL, Line
from tests.harness.valkey import Valkey
from worker.seeing.fleet import look
from worker.seeing.readiness import Readiness, readiness
from worker.store.connections import connect, now_ms
from worker.store.keys import job_keys

UNSERVED = "line p: 1 wait, the oldest for 100 s, though 1000 slots are free"


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    with connect(valkey.url) as store:
        store.flushall()
        yield store


@pytest.fixture
def line(client: redis.Redis) -> Line:
    """One key, and a worker that is heard of."""
    made = Line(client, {"a": Account(name="a")})
    made.ask()
    return made


def ready(line: Line, valkey: Valkey, meanwhile: str = "") -> Readiness:
    """`meanwhile` "granted": the job gets its lease between the two looks."""
    settings = replace(line.settings, redis_url=valkey.url)
    return readiness(settings, lambda _: line.ask() if meanwhile else None)  # type: ignore[arg-type]


def waits_since(line: Line, job: str, seconds: int) -> None:
    line.client.hset(job_keys(job).record, "created_ms", now_ms(line.client) - seconds * 1000)
    line.submit(job)


def test_a_fleet_with_nothing_to_do_is_ready(line: Line, valkey: Valkey) -> None:
    found = ready(line, valkey)

    assert (found.ready, found.oldest_waiting_s) == (True, None)
    assert [check.check for check in found.checks] == ["store", "workers p", "keys p", "line p"]


def test_a_line_nobody_serves_makes_it_unready(line: Line, valkey: Valkey) -> None:
    waits_since(line, "old", 100)

    found = ready(line, valkey)
    (reason,) = found.reasons
    assert reason.startswith(UNSERVED)
    assert found.oldest_waiting_s == pytest.approx(100, abs=5)


def test_a_job_that_just_came_back_is_no_fault(line: Line, valkey: Valkey) -> None:
    """It is old, and granted as soon as a worker asks."""
    waits_since(line, "old", 100)

    assert ready(line, valkey, meanwhile="granted").reasons == []


def test_a_job_that_waits_for_its_limit_is_no_fault(client: redis.Redis, valkey: Valkey) -> None:
    line = Line(client, {"a": Account(name="a", requests_per_minute=1, burst=0.5)})
    waits_since(line, "first", 200)
    waits_since(line, "second", 100)
    line.ask()

    found = ready(line, valkey)
    assert found.reasons == []
    assert found.oldest_waiting_s == pytest.approx(100, abs=5)


@pytest.mark.parametrize("status", [401, 402])
def test_a_refused_key_or_one_without_credit_is_an_outage(
    line: Line, valkey: Valkey, status: int
) -> None:
    line.submit("job")
    line.refuse(line.one(), status)

    (told,) = ready(line, valkey).reasons
    assert told.startswith(f"keys p: no key may be used: a: the provider answered {status}")


@pytest.mark.parametrize(("seconds", "outage"), [(5, False), (600, True)])
def test_only_a_long_rest_for_a_rate_limit_is_an_outage(
    line: Line, valkey: Valkey, seconds: int, outage: bool
) -> None:
    line.submit("job")
    message = "Too many concurrent requests"
    line.refuse(line.one(), 429, {"retry-after": str(seconds)}, message)

    assert bool(ready(line, valkey).reasons) is outage


def test_one_usable_key_is_enough(client: redis.Redis, valkey: Valkey) -> None:
    line = Line(client, {"a": Account(name="a"), "b": Account(name="b")})
    line.submit("job")
    line.refuse(line.one(), 402)

    assert ready(line, valkey).reasons == []


def test_workers_without_slots_take_no_jobs(line: Line, valkey: Valkey) -> None:
    line.ask(slots=0)
    line.client.hset("ls:{p}:slots", "w1", 0)

    assert ready(line, valkey).reasons == ["workers p: none of 1 takes jobs"]


def test_the_end_of_the_line_is_expected_at_the_pace_of_its_first(line: Line) -> None:
    line.submit(*(f"job-{number}" for number in range(150)))
    pool = look(line.client, line.settings).pools[0]

    assert (pool.pool, pool.queue.waiting, len(pool.queue.first)) == (POOL, 150, 100)
    assert pool.last_s is not None
    assert pool.last_s >= (pool.queue.first[-1].starts_s or 0)


def test_a_store_that_does_not_answer_is_told_in_seconds(valkey: Valkey, line: Line) -> None:
    settings = replace(line.settings, redis_url="redis://127.0.0.1:1/0")
    began = time.monotonic()

    assert readiness(settings).reasons == [
        "store: redis://127.0.0.1:1/0 does not answer (ConnectionError)"
    ]
    assert time.monotonic() - began < 10
