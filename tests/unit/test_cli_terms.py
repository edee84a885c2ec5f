"""The options of a submit, as they are typed."""

from __future__ import annotations

import click
import pytest

from tasks.cli.terms import ON_INTERRUPT, Asked, seconds_of
from worker.job.terms import USUAL, OnInterrupt, Terms


def test_the_choices_are_those_of_the_terms() -> None:
    assert list(ON_INTERRUPT) == list(OnInterrupt)


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2H", 7200), (" 1d ", 86_400)],
)
def test_a_duration_is_seconds_or_has_a_unit(typed: str, seconds: float) -> None:
    assert seconds_of(typed) == seconds


@pytest.mark.parametrize("typed", ["", "0", "-1", "soon", "1w", "1e9d", "9999999d", "nan"])
def test_what_is_no_duration_is_refused(typed: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration"):
        seconds_of(typed)


def test_nothing_asked_for_is_what_everybody_gets() -> None:
    nothing = Asked(on_interrupt="auto", deadline_s=None, job_id=None)
    assert not nothing.given
    assert nothing.terms() == USUAL
    asked = Asked(on_interrupt="fail", deadline_s=60.0, job_id=None)
    assert asked.given
    assert asked.terms() == Terms(on_interrupt=OnInterrupt.FAIL, deadline_s=60.0)
