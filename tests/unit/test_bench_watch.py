"""What one reader sees of one job, by the clock."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tasks.bench.watch import BURST_TOKENS, GAP_S, Watch, clock_in
from worker.log.view import Attempt, Cut, End, Followed, Status, Text, Thinking


def begun(attempt: int = 1, reason: str = "") -> Attempt:
    return Attempt(cursor=f"{attempt}-0", attempt=attempt, mode="start", reason=reason)


def said(text: str, offset: int = 0) -> Text:
    return Text(cursor="1-1", offset=offset, text=text)


def thought(tokens: int) -> Thinking:
    return Thinking(cursor="1-1", tokens=tokens)


def seen(*items: tuple[Followed, float], submitted: float = 0.0) -> Watch:
    watch = Watch(submitted)
    for item, at in items:
        watch.take(item, at)
    return watch


@pytest.mark.parametrize("first", [said("a"), thought(1)])
def test_the_first_token_is_counted_from_the_attempt_whatever_its_kind(first: Followed) -> None:
    watch = seen((Status(state="waiting"), 1.0), (begun(), 5.0), (first, 5.25))

    assert watch.first_s == pytest.approx(0.25)


def test_the_first_visible_delta_is_counted_from_the_submit() -> None:
    watch = seen((begun(), 5.0), (thought(1), 5.5), (said("a"), 7.0), submitted=2.0)

    assert watch.first_visible_s == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("silence_s", "tokens", "gap", "burst"),
    [
        (GAP_S - 0.01, BURST_TOKENS - 1, 0, 0),
        (GAP_S, 0, 1, 0),
        (0.1, BURST_TOKENS, 0, 1),
        (3.0, 400, 1, 1),
    ],
)
def test_a_gap_or_a_burst_is_one_event_and_no_inter_token_time(
    silence_s: float, tokens: int, gap: int, burst: int
) -> None:
    watch = seen(
        (begun(), 0.0), (said("a"), 0.0), (thought(tokens), silence_s), (said("b"), silence_s)
    )

    assert (watch.gaps, watch.bursts, watch.clusters) == (gap, burst, int(gap or burst))
    assert watch.visible.total == 1 - int(gap or burst)


def test_reasoning_before_the_first_visible_delta_is_no_event() -> None:
    watch = seen((begun(), 0.0), (thought(500), 9.0), (said("a"), 9.1))

    assert watch.clusters == 0


def test_reasoning_time_is_counted_by_token_and_not_up_to_the_text() -> None:
    watch = seen(
        (begun(), 0.0), (thought(1), 0.0), (thought(26), 0.5), (thought(30), 9.0), (said("a"), 9.0)
    )

    assert watch.thinking.total == 1
    assert watch.thinking.quantile(0.5) == pytest.approx(0.02, rel=0.011)


@pytest.mark.parametrize(
    ("reason", "timed_out", "cut"),
    [
        ("the bytes_idle clock ran out: no byte arrived for 4 s", 1, 0),
        ("the connection broke", 0, 1),
    ],
)
def test_another_attempt_is_counted_and_is_no_silence(
    reason: str, timed_out: int, cut: int
) -> None:
    watch = seen(
        (begun(), 0.0),
        (thought(100), 0.1),
        (said("wrong"), 0.1),
        (begun(2, reason), 60.0),
        (Cut(cursor="2-0", offset=2), 60.0),
        (said("ite", 2), 61.0),
    )

    assert (watch.timed_out, watch.cut) == (timed_out, cut)
    assert (watch.clusters, watch.visible.total) == (0, 0)
    assert watch.text == "write"


def test_a_clock_is_told_from_a_cut() -> None:
    assert clock_in("failed: the progress_idle clock ran out: no event arrived for 300 s")
    assert not clock_in("the answer ended before its end was earned")


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(min_value=0.0, max_value=2.0), st.integers(0, 90)),
        min_size=2,
        max_size=60,
    )
)
def test_every_step_between_two_deltas_is_either_an_event_or_a_time(
    steps: list[tuple[bool, float, int]],
) -> None:
    """However an answer comes: no step is lost, and none is counted twice."""
    watch, now, tokens, texts = Watch(0.0), 0.0, 0, 0
    watch.take(begun(), now)
    for visible, wait_s, more in steps:
        now, tokens = now + wait_s, tokens + more
        watch.take(said("x", texts) if visible else thought(tokens), now)
        texts += visible

    assert watch.clusters + watch.visible.total == max(0, texts - 1)
    assert max(watch.gaps, watch.bursts) <= watch.clusters <= watch.gaps + watch.bursts


def test_the_end_is_kept() -> None:
    end = End(cursor="1-9", outcome="completed", length=0, digest="", attempts=1)

    assert seen((begun(), 0.0), (end, 1.0)).end is end
