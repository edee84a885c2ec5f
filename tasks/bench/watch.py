"""What one reader saw of one job: its text, and when what came. Pure: items and times in.

A clustering event is what happens between two visible deltas that stand apart: a gap of at least
half a second, or a burst of at least 40 reasoning tokens, or both at once, which is one event. The
time between two visible deltas counts as inter-token time only if it is no such event. Reasoning is
heard of about every half second; its inter-token time is that time by the tokens it brought, and
what ends with a visible delta is left out.
"""

from __future__ import annotations

from tasks.bench.histogram import Histogram
from worker.log.view import Attempt, Cut, End, Followed, Text, Thinking

#: The published lower ends of gaps and bursts.
GAP_S = 0.5
BURST_TOKENS = 40

DEFINITION = (
    f"A clustering event is a gap of at least {GAP_S:g} s between two visible deltas, or a burst"
    f" of at least {BURST_TOKENS} reasoning tokens between them; both at once are one event."
)

_CLOCKS = ("clock ran out", "within the connect time-out", "within the read time-out")


class Watch:
    """Feed it every item of one job, with the time it came."""

    def __init__(self, now: float) -> None:
        self._submitted = now
        self._began: float | None = None
        self._last_visible: float | None = None
        self._thought = self._thought_before = 0
        self._thought_at: float | None = None
        self._interval: tuple[float, int] | None = None
        self._pieces: list[str] = []
        self.first_s: float | None = None
        self.first_visible_s: float | None = None
        self.visible, self.thinking = Histogram(), Histogram()
        self.gaps = self.bursts = self.clusters = 0
        self.timed_out = self.cut = 0
        self.end: End | None = None

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take(self, item: Followed, now: float) -> None:
        if isinstance(item, Text):
            self._text(item, now)
        elif isinstance(item, Thinking):
            self._think(item, now)
        elif isinstance(item, Attempt):
            self._attempt(item, now)
        elif isinstance(item, Cut):
            self._pieces = [self.text[: item.offset]]
        elif isinstance(item, End):
            self.end = item

    def _attempt(self, item: Attempt, now: float) -> None:
        """Another attempt says everything again: what it brings is no silence of the provider."""
        self._last_visible = self._thought_at = self._interval = None
        self._thought = self._thought_before = 0
        if item.attempt == 1:
            self._began = now
        elif clock_in(item.reason):
            self.timed_out += 1
        else:
            self.cut += 1

    def _think(self, item: Thinking, now: float) -> None:
        self._first(now)
        self._count_interval()
        if self._thought_at is not None and item.tokens > self._thought:
            self._interval = (now - self._thought_at, item.tokens - self._thought)
        self._thought, self._thought_at = item.tokens, now

    def _text(self, item: Text, now: float) -> None:
        self._first(now)
        if self.first_visible_s is None:
            self.first_visible_s = now - self._submitted
        if self._last_visible is not None:
            self._between(now - self._last_visible, self._thought - self._thought_before)
        self._pieces.append(item.text)
        self._last_visible, self._thought_before = now, self._thought
        # The last interval ends with the text and not with a reasoning token.
        self._thought_at = self._interval = None

    def _between(self, silence_s: float, tokens: int) -> None:
        gap, burst = silence_s >= GAP_S, tokens >= BURST_TOKENS
        self.gaps += gap
        self.bursts += burst
        if gap or burst:
            self.clusters += 1
        else:
            self.visible.add(silence_s)

    def _first(self, now: float) -> None:
        if self.first_s is None and self._began is not None:
            self.first_s = now - self._began

    def _count_interval(self) -> None:
        if self._interval is not None:
            seconds, tokens = self._interval
            self.thinking.add(seconds / tokens)
            self._interval = None


def clock_in(reason: str) -> bool:
    """True when the reason of a failure is that a clock or a time-out ran out."""
    return any(words in reason for words in _CLOCKS)
