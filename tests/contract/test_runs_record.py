"""What the store keeps of a run: found again by the start of its id, and gone by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.edits.source import source_file
from tasks.runs.record import Delivery, Journal, Run, find_run, run_of, starting_with, store_run
from tests.conftest import Store
from worker.job.listing import starting_with as beginning
from worker.store.keys import JOBS, run_keys

AGE_S = 100
FILES = [source_file(name, b"x\n") for name in ("a.py", "b c.py", "d\n\u00e9.py")]


def made(run_id: str, *, each: bool = True) -> Run:
    groups = [[file] for file in FILES] if each else [FILES]
    delivery = Delivery(how="branch", to="b", check="pytest -q")
    return run_of(run_id, groups, Path("/root"), model="m", effort=None, delivery=delivery)


def listed(store: Store, *jobs: str) -> None:
    store.sync.zadd(JOBS, {job: number for number, job in enumerate(jobs, 1)})


def test_a_run_comes_back_as_it_was(store: Store) -> None:
    run = made("abc123")
    store_run(store.sync, run, AGE_S)
    assert find_run(store.sync, "abc123") == run
    assert [job.id for job in run.jobs] == ["abc123-1", "abc123-2", "abc123-3"]
    assert [job.id for job in made("abc123", each=False).jobs] == ["abc123"]
    assert find_run(store.sync, "other") is None


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("abc123", "abc123"),
        ("abc", "abc123"),
        ("a", None),
        ("", None),
        ("my-own", "my-own"),
        ("x", None),
    ],
)
def test_a_run_is_found_by_the_start_of_its_id(
    store: Store, prefix: str, found: str | None
) -> None:
    for run_id in ("abc123", "ade456", "my-own"):
        run = made(run_id)
        store_run(store.sync, run, AGE_S)
        listed(store, *(job.id for job in run.jobs))
    run = starting_with(store.sync, prefix)
    assert (run and run.id) == found


def test_everything_of_a_run_expires(store: Store) -> None:
    store_run(store.sync, made("abc123"), AGE_S)
    journal = Journal(store.sync, "abc123", AGE_S)
    journal.intend("a.py", "s1")
    keys = run_keys("abc123")
    assert 0 < store.sync.ttl(keys.record) <= AGE_S
    assert 0 < store.sync.ttl(keys.written) <= AGE_S


def test_what_was_written_is_known_to_whoever_takes_the_run_up(store: Store) -> None:
    journal = Journal(store.sync, "abc123", AGE_S)
    journal.intend("d\n\u00e9.py", "s1")
    journal.intend("d\n\u00e9.py", "s2")
    again = Journal(store.sync, "abc123", AGE_S)
    assert again.sums("d\n\u00e9.py") == {"s1", "s2"}
    assert again.sums("a.py") == frozenset()
    assert Journal(store.sync, "other", AGE_S).sums("d\n\u00e9.py") == frozenset()


def test_the_start_of_an_id_is_no_pattern(store: Store) -> None:
    listed(store, "a.b-1", "a.b-2", "a-b", "b", *(f"n{number}" for number in range(2_000)))
    assert sorted(set(beginning(store.sync, "a."))) == ["a.b-1", "a.b-2"]
    assert len(set(beginning(store.sync, "n1"))) == 1_111
    for pattern in ("?", "*", "[ab]", "\\a", "n*0"):
        assert list(beginning(store.sync, pattern)) == []
