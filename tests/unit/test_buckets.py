"""The bucket: what it guarantees in any window, and that its two versions are the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from lupa.lua51 import LuaRuntime
from msgspec.structs import replace

from worker.admission.buckets import CELLS, PIECES, Bucket
from worker.store.scripts import script

PERIOD = 60_000.0

limits = st.floats(1, 1e7)
bursts = st.sampled_from([0.02, 0.05, 0.1, 0.3])
#: Costs as shares of the limit, and pauses as shares of a period.
shares = st.one_of(st.floats(0.001, 0.1), st.floats(0.1, 1.0))
pauses = st.one_of(st.just(0.0), st.floats(0, 0.2), st.floats(0, 2.5))


def taken(bucket: Bucket, asked: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """When each job was taken that was asked for, each as early as it fits after its pause."""
    now, out = 1000.0, []
    for pause, share in asked:
        now += pause * PERIOD
        cost = share * bucket.limit
        # A large job that is forgotten meanwhile changes the answer, but not without end.
        for _ in range(3):
            now += bucket.wait(cost, now)
        assert bucket.wait(cost, now) < 1e-3
        bucket = bucket.take(cost, now)
        out.append((now, cost))
    return out


def worst_window(jobs: list[tuple[float, float]]) -> float:
    """The most that was taken in any period, less a microsecond for rounding."""
    return max(sum(c for at, c in jobs if first <= at < first + PERIOD - 1e-3) for first, _ in jobs)


@settings(max_examples=400, deadline=None)
@given(limits, bursts, st.lists(st.tuples(pauses, shares), min_size=1, max_size=60))
def test_no_window_ever_exceeds_the_limit(
    limit: float, burst: float, asked: list[tuple[float, float]]
) -> None:
    jobs = taken(Bucket(limit, burst), asked)
    assert worst_window(jobs) <= limit * (1 + 1e-6)


def used_with_refunds(
    limit: float, burst: float, asked: list[tuple[float, float, float, float]]
) -> list[tuple[float, float]]:
    """As `taken`, but each job uses a share of its cost only, which is known after a while."""
    bucket, now = Bucket(limit, burst), 1000.0
    out: list[tuple[float, float]] = []
    running: list[tuple[float, int, float]] = []

    def settle(until: float) -> None:
        nonlocal bucket
        for job in sorted(job for job in running if job[0] <= until):
            running.remove(job)
            bucket = bucket.correct(job[1], -job[2], until)

    for pause, share, used, held in asked:
        now += pause * PERIOD
        settle(now)
        cost = share * limit
        for _ in range(3):
            now += bucket.wait(cost, now)
        bucket = bucket.take(cost, now)
        running.append((now + held * PERIOD, bucket.piece, cost * (1 - used)))
        out.append((now, cost * used))
    return out


@settings(max_examples=400, deadline=None)
@given(
    limits,
    bursts,
    st.lists(
        st.tuples(pauses, shares, st.floats(0, 1), st.floats(0, 0.5)), min_size=1, max_size=60
    ),
)
def test_what_comes_back_never_makes_a_window_exceed_the_limit(
    limit: float, burst: float, asked: list[tuple[float, float, float, float]]
) -> None:
    assert worst_window(used_with_refunds(limit, burst, asked)) <= limit * (1 + 1e-6)


@pytest.mark.parametrize("burst", [0.02, 0.05, 0.1, 0.5])
def test_a_backlog_of_small_jobs_uses_all_but_a_twentieth(burst: float) -> None:
    jobs = taken(Bucket(1000, burst), [(0.0, 0.001)] * 20_000)
    minutes = (jobs[-1][0] - jobs[0][0]) / PERIOD
    assert len(jobs) / minutes == pytest.approx(1000 * 20 / 21, rel=0.03)


def test_what_comes_back_after_seconds_is_used_again() -> None:
    """A backlog that uses three quarters of its estimates, settled after an eighth of a period."""
    asked = [(0.0, 0.01, 0.75, 0.125)] * 8_000
    jobs = used_with_refunds(1000, 0.05, asked)
    minutes = (jobs[-1][0] - jobs[0][0]) / PERIOD
    assert sum(cost for _, cost in jobs) / minutes > 0.94 * 0.95 * 1000


def test_a_job_of_the_whole_limit_is_taken_once_a_period_and_a_piece() -> None:
    jobs = taken(Bucket(1000), [(0.0, 1.0)] * 5)
    gaps = [later - at for (at, _), (later, _) in pairwise(jobs)]
    assert all(PERIOD <= gap <= PERIOD * 1.051 for gap in gaps)


def test_a_job_above_the_limit_passes_alone_and_pays_for_all_of_it() -> None:
    bucket = Bucket(1000).take(3000, 1000.0)
    assert bucket.wait(1000, 1000.0) >= 3 * PERIOD


def test_one_request_fits_at_once_however_small_the_limit() -> None:
    assert Bucket(1).wait(1, 1e9) == 0
    assert Bucket(1).take(1, 1e9).wait(1, 1e9) == pytest.approx(PERIOD, rel=0.051)


def test_a_full_burst_refills_at_the_full_rate() -> None:
    bucket = Bucket(600, burst=1)
    for _ in range(600):
        assert bucket.wait(1, 1000.0) == 0
        bucket = bucket.take(1, 1000.0)
    assert bucket.wait(1, 1000.0) == pytest.approx(100.0)


def test_tightening_never_loosens() -> None:
    bucket = Bucket(1000, burst=1).take(900, 1000.0)
    assert bucket.left(1000.0) == pytest.approx(100)
    assert bucket.tighten(10, 1000.0).left(1000.0) == pytest.approx(10)
    assert bucket.tighten(500, 1000.0) == bucket


class InLua:
    """The same operations on `buckets.lua`."""

    def __init__(self) -> None:
        self._lua = LuaRuntime()
        files = ("buckets", "tightening")
        source = "\n".join(script("worker.admission", name).source for name in files)
        exports = "{ wait = wait_for, take = take, tighten = tighten }"
        self._buckets = self._lua.execute(f"{source}\nreturn {exports}")

    def ask(self, what: str, bucket: Bucket, *args: float) -> tuple[float, Bucket]:
        """The answer, and the bucket as it is then."""
        spec = self._lua.table_from(
            {
                "limit": bucket.limit,
                "interval": bucket.interval,
                "room": bucket.room,
                "piece_ms": bucket.period / PIECES,
                "strict": bucket.strict,
                "tat": 1,
                "at": 2,
            }
        )
        state = self._lua.table_from([bucket.tat, bucket.piece, sum(bucket.pieces), *bucket.pieces])
        answer = self._buckets[what](spec, state, *args)
        tat, piece, total, *pieces = (state[n] for n in range(1, 4 + CELLS))
        assert total == pytest.approx(sum(pieces), abs=1e-3)
        return answer, replace(bucket, tat=tat, piece=int(piece), pieces=tuple(pieces))


IN_LUA = InLua()

NOW = 50 * PERIOD

states = st.builds(
    Bucket,
    limits,
    st.sampled_from([0.02, 0.1, 0.5, 1.0]),
    st.just(PERIOD),
    st.floats(NOW - PERIOD, NOW + PERIOD),
    st.integers(46 * PIECES, 52 * PIECES),
    st.tuples(*[st.integers(0, 1_000_000).map(float)] * CELLS),
)


@settings(max_examples=400, deadline=None)
@given(states, st.integers(0, 2_000_000), st.floats(NOW - PERIOD, NOW + PERIOD))
def test_the_store_computes_what_the_oracle_does(bucket: Bucket, cost: float, now: float) -> None:
    assert IN_LUA.ask("wait", bucket, cost, now)[0] == pytest.approx(bucket.wait(cost, now))
    for what in ("take", "tighten"):
        changed, expected = (
            IN_LUA.ask(what, bucket, cost, now)[1],
            getattr(bucket, what)(cost, now),
        )
        assert changed.tat == pytest.approx(expected.tat)
        assert changed.piece == expected.piece or not bucket.strict
        assert changed.pieces == pytest.approx(expected.pieces)
