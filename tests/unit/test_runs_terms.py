"""What a run may cost is what its jobs may cost together."""

from __future__ import annotations

import math
from pathlib import Path

from hypothesis import given, strategies as st

from tasks.edits.source import source_file
from tasks.runs.record import Delivery, run_of
from worker.job.terms import OnInterrupt, Terms

SIZES = st.lists(st.lists(st.integers(0, 2000), min_size=1, max_size=4), min_size=1, max_size=8)


@given(SIZES, st.floats(0.001, 1000))
def test_the_jobs_of_a_run_share_its_limit_by_their_size(
    sizes: list[list[int]], limit: float
) -> None:
    groups = [
        [source_file(f"{i}-{j}.py", b"x" * size) for j, size in enumerate(group)]
        for i, group in enumerate(sizes)
    ]
    terms = Terms(on_interrupt=OnInterrupt.FAIL, max_cost_usd=limit)
    run = run_of("r", groups, Path("/"), model="m", effort=None, delivery=Delivery(), terms=terms)
    each = [run.terms_of(job.id) for job in run.jobs]
    shares = [one.max_cost_usd or 0 for one in each]
    assert all(share > 0 for share in shares)
    assert math.isclose(sum(shares), limit)
    totals = [sum(group) for group in sizes]
    assert sorted(zip(totals, shares, strict=True)) == sorted(
        zip(sorted(totals), sorted(shares), strict=True)
    )
    assert {one.on_interrupt for one in each} == {OnInterrupt.FAIL}


def test_a_run_without_a_limit_gives_none_to_its_jobs() -> None:
    terms = Terms(deadline_s=60)
    groups = [[source_file("a.py", b"x")], [source_file("b.py", b"y")]]
    run = run_of("r", groups, Path("/"), model="m", effort=None, delivery=Delivery(), terms=terms)
    assert [run.terms_of(job.id) for job in run.jobs] == [terms, terms]
