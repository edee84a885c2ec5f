"""The clocks of one stream: which one ran out, told from what has happened since.

Four clocks beside the socket's own time-outs: until the headers, since the last byte, since the
last parsed event (comments do not count), and since the beginning. They count the time a host was
suspended, where the system can tell. Time during which nobody reads the stream is not the
provider's and is not counted as idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from settings.model import Clocks
from worker.upstream.failures import UpstreamFailure

#: How often a clock is looked at while nothing arrives; timers stand still in a suspended host.
LOOK_S = 5.0

#: A look that comes this late means that the host or the loop stood still, and that bytes may be
#: there which nobody had time to read: the clocks are then looked at once more, a second later.
LATE_S = 2.0
SECOND_LOOK_S = 1.0

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


#: Seconds on a clock that never goes back and also counts suspension.
boottime: Callable[[], float] = (
    time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
)


class Watch:
    """The clocks of one request, started when it is sent."""

    __slots__ = (
        "_bytes",
        "_clocks",
        "_due",
        "_end",
        "_events",
        "_headers",
        "_mercy",
        "_now",
        "_start",
    )

    def __init__(self, clocks: Clocks, now: Callable[[], float] = boottime) -> None:
        self._clocks = clocks
        self._now = now
        self._start = self._bytes = self._events = now()
        self._headers = False
        self._end: float | None = None
        self._due = self._mercy = self._start

    def headers_came(self) -> None:
        self._headers = True
        self._bytes = self._events = self._now()

    def event_came(self, at: float) -> None:
        """One came then. It may be told late, and takes back nothing that came since."""
        self._bytes, self._events = max(self._bytes, at), max(self._events, at)

    def bytes_came(self, *, events: bool) -> None:
        self._bytes = self._now()
        if events:
            self._events = self._bytes

    def end_within(self, grace_s: float | None, *, renew: bool = False) -> None:
        """Sets how long the end is waited for; None leaves it open.

        A shorter wait replaces a longer one. `renew`: the answer went on, so it begins again.
        """
        if grace_s is not None:
            end = self._now() + grace_s
            self._end = end if self._end is None or renew else min(self._end, end)

    def patience_is_over(self) -> bool:
        return self._end is not None and self._now() >= self._end

    def resume(self) -> None:
        """The reader is back: the time it was away is nobody's silence."""
        self._bytes = self._events = self._now()

    def wait_s(self) -> float:
        """How long to wait before looking at the clocks again."""
        now = self._now()
        next_end = max(min(deadline for _, deadline, _ in self._deadlines()), self._mercy)
        if self._end is not None:
            next_end = min(next_end, self._end)
        wait_s = min(max(next_end - now, 0.0), LOOK_S)
        self._due = now + wait_s
        return wait_s

    def check(self) -> None:
        """Raises for the clock that ran out, if one did."""
        now = self._now()
        if now - self._due > LATE_S:
            self._mercy = now + SECOND_LOOK_S
        if now < self._mercy:
            return
        for name, deadline, limit_s in self._deadlines():
            if now >= deadline:
                raise _ran_out(name, limit_s)

    def _deadlines(self) -> list[tuple[str, float, float]]:
        clocks = self._clocks
        running = (
            [("bytes_idle", self._bytes, clocks.bytes_idle_s),
             ("progress_idle", self._events, clocks.progress_idle_s)]
            if self._headers
            else [("headers", self._start, clocks.headers_s)]
        )  # fmt: skip
        if clocks.total_s is not None:
            running.append(("total", self._start, clocks.total_s))
        return [(name, since + limit_s, limit_s) for name, since, limit_s in running]


_SAYS = {
    "headers": "no answer began within {:g} s",
    "bytes_idle": "no byte arrived for {:g} s",
    "progress_idle": "no event arrived for {:g} s, only keep-alives",
    "total": "the answer took longer than {:g} s",
}


def _ran_out(name: str, limit_s: float) -> UpstreamFailure:
    return UpstreamFailure(
        f"the {name} clock ran out: {_SAYS[name].format(limit_s)}",
        kind=name,
        fault="request" if name == "total" else "provider",
        retryable=name != "total",
    )
