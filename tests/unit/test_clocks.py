"""Each clock fires by its name, after exactly its time, and never because we were asleep."""

from __future__ import annotations

import time

import pytest

from settings.model import Clocks
from worker.upstream.clocks import LATE_S, LOOK_S, Watch, boottime
from worker.upstream.failures import UpstreamFailure

CLOCKS = Clocks(headers_s=20, bytes_idle_s=10, progress_idle_s=30, total_s=100)


class Hand:
    """A clock turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def pass_time(watch: Watch, hand: Hand, seconds: float) -> str | None:
    """Waits as the client does; the name of the clock that ran out, if one did."""
    end = hand.now + seconds
    while hand.now < end:
        hand.now = min(end, hand.now + max(watch.wait_s(), 0.001))
        try:
            watch.check()
        except UpstreamFailure as failure:
            return failure.kind
    return None


def running(clocks: Clocks = CLOCKS) -> tuple[Watch, Hand]:
    hand = Hand()
    watch = Watch(clocks, hand)
    watch.headers_came()
    return watch, hand


def test_headers_that_do_not_come_run_the_headers_clock_out() -> None:
    hand = Hand()
    watch = Watch(CLOCKS, hand)

    assert pass_time(watch, hand, 19.9) is None
    assert pass_time(watch, hand, 0.2) == "headers"


def test_silence_runs_the_bytes_clock_out() -> None:
    watch, hand = running()

    assert pass_time(watch, hand, 9.9) is None
    assert pass_time(watch, hand, 0.2) == "bytes_idle"


def test_comments_feed_the_bytes_clock_and_not_the_progress_clock() -> None:
    watch, hand = running()
    for _ in range(5):
        assert pass_time(watch, hand, 5) is None
        watch.bytes_came(events=False)

    assert pass_time(watch, hand, 5.1) == "progress_idle"


def test_events_feed_both_until_the_total_is_used_up() -> None:
    watch, hand = running()
    for _ in range(19):
        assert pass_time(watch, hand, 5) is None
        watch.bytes_came(events=True)

    assert pass_time(watch, hand, 5.1) == "total"


def test_without_a_total_a_stream_may_take_for_ever() -> None:
    hand = Hand()
    watch = Watch(Clocks(), hand)
    watch.headers_came()
    for _ in range(1000):
        assert pass_time(watch, hand, 100) is None
        watch.bytes_came(events=True)


def test_time_in_which_nobody_reads_is_nobodys_silence() -> None:
    watch, hand = running()
    hand.now += 60
    watch.resume()

    assert pass_time(watch, hand, 9.9) is None


def test_an_event_that_is_told_late_takes_back_nothing_that_came_since() -> None:
    """The watch hears of usual events when it looks; a pause or a comment may have come behind."""
    watch, hand = running()
    came_at = hand.now
    hand.now += 60
    watch.resume()
    watch.event_came(came_at)
    assert pass_time(watch, hand, 9.9) is None

    watch.event_came(hand.now)
    assert pass_time(watch, hand, 9.9) is None
    assert pass_time(watch, hand, 0.2) == "bytes_idle"


def test_after_a_suspended_host_the_bytes_that_wait_are_read_first() -> None:
    watch, hand = running(Clocks(bytes_idle_s=10))
    watch.wait_s()
    hand.now += 3600
    watch.check()
    assert watch.wait_s() > 0
    watch.bytes_came(events=True)

    assert pass_time(watch, hand, 9) is None


def test_after_a_suspended_host_a_dead_connection_is_noticed_soon() -> None:
    watch, hand = running()
    watch.wait_s()
    hand.now += 3600
    watch.check()

    assert pass_time(watch, hand, LATE_S) == "bytes_idle"


def test_the_end_is_waited_for_no_longer_than_its_grace() -> None:
    watch, hand = running()
    watch.end_within(None)
    assert not watch.patience_is_over()
    watch.end_within(1.0)
    watch.end_within(5.0)

    assert 0.9 < watch.wait_s() <= 1.0
    hand.now += 1.0
    assert watch.patience_is_over()


def test_a_clock_is_looked_at_often_enough_to_notice_a_suspension() -> None:
    watch, _ = running()

    assert 0 < watch.wait_s() <= LOOK_S


def test_the_clock_never_goes_back_and_counts_suspension_where_the_system_does() -> None:
    readings = [boottime() for _ in range(100)]

    assert readings == sorted(readings)
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert abs(boottime() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1


def test_the_error_says_which_clock_and_how_long() -> None:
    hand = Hand()
    watch = Watch(CLOCKS, hand)
    watch.wait_s()
    hand.now += 1
    pass_time(watch, hand, 18.9)
    watch.wait_s()
    hand.now += 0.1

    with pytest.raises(UpstreamFailure, match="headers clock ran out: no answer began within 20 s"):
        watch.check()
