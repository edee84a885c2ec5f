"""Real limits, by account: what a provider enforces, and what it saw. The judge of a client.

    python -m tasks.local.simulator --limits FILE.json

    {"window_s": 60, "headers": true,
     "accounts": {"acme": {"secrets": ["sk-1", "sk-2"],
                           "requests": 60, "tokens": 100000, "streams": 10}}}

Requests and tokens are counted in sliding windows, with no grid to slip through; a request counts
with all it will take from the moment it comes, unless it is refused. A stream counts until its
connection is done with it. `GET /limits` shows the most that was ever seen in one window, and how
many requests were refused. Without the file nobody is limited.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec

from tasks.local.simulator import failures
from tasks.local.simulator.steps import Head, Headers, Script


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one account; 0 for none."""

    secrets: tuple[str, ...]
    requests: int = 0
    tokens: int = 0
    streams: int = 0


class LimitsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--limits` reads."""

    accounts: dict[str, Allowed]
    window_s: float = 60.0
    #: Whether answers say what is left.
    headers: bool = False


class Seen(msgspec.Struct):
    """What one account did. The worst is the most of any window, or at any time."""

    requests: int = 0
    tokens: int = 0
    refused: int = 0
    streams: int = 0
    worst_requests: int = 0
    worst_tokens: int = 0
    worst_streams: int = 0


class Window:
    """What one account took in the last `window_s` seconds."""

    def __init__(self, allowed: Allowed, window_s: float) -> None:
        self.allowed = allowed
        self.seen = Seen()
        self.tokens = 0
        self._window_s = window_s
        self._taken: deque[tuple[float, int]] = deque()

    @property
    def requests(self) -> int:
        return len(self._taken)

    def wait(self, tokens: int, now: float) -> tuple[str, float]:
        """What stands against one more request, and for how many seconds; "" for nothing."""
        self._forget(now)
        allowed = self.allowed
        if allowed.streams and self.seen.streams >= allowed.streams:
            return "concurrent requests", 0.0
        if allowed.requests and self.requests >= allowed.requests:
            return "requests per minute", self._until(self.requests - allowed.requests + 1, now)
        if allowed.tokens and self.tokens + tokens > allowed.tokens:
            return "tokens per minute", self._until_tokens(self.tokens + tokens, now)
        return "", 0.0

    def take(self, tokens: int, now: float) -> None:
        self._taken.append((now, tokens))
        self.tokens += tokens
        seen = self.seen
        seen.requests += 1
        seen.tokens += tokens
        seen.streams += 1
        seen.worst_requests = max(seen.worst_requests, self.requests)
        seen.worst_tokens = max(seen.worst_tokens, self.tokens)
        seen.worst_streams = max(seen.worst_streams, seen.streams)

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0][0] <= now - self._window_s:
            self.tokens -= self._taken.popleft()[1]

    def _until(self, leaving: int, now: float) -> float:
        return self._taken[min(leaving, self.requests) - 1][0] + self._window_s - now

    def _until_tokens(self, wanted: int, now: float) -> float:
        for at, tokens in self._taken:
            wanted -= tokens
            if wanted <= self.allowed.tokens:
                return at + self._window_s - now
        return self._window_s


class Judge:
    """Refuses what is too much, and remembers what it saw."""

    def __init__(
        self, limits: LimitsFile | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        limits = limits or LimitsFile({})
        self._clock = clock
        self._headers = limits.headers
        self._windows = {
            name: Window(allowed, limits.window_s) for name, allowed in limits.accounts.items()
        }
        self._of = {
            secret: window for window in self._windows.values() for secret in window.allowed.secrets
        }
        self._open: dict[str, Window] = {}

    def judge(self, secret: str | None, request_id: str, tokens: int, script: Script) -> Script:
        """`script` when the request is within the limits, else a refusal."""
        window = self._of.get(secret or "")
        if window is None:
            return script
        now = self._clock()
        reason, wait_s = window.wait(tokens, now)
        if reason:
            window.seen.refused += 1
            return self._refusal(window, reason, wait_s)
        window.take(tokens, now)
        self._open[request_id] = window
        return _with(self._said(window), script) if self._headers else script

    def done(self, request_id: str) -> None:
        """The request holds no stream any more."""
        if (window := self._open.pop(request_id, None)) is not None:
            window.seen.streams -= 1

    def report(self) -> Script:
        seen = {name: window.seen for name, window in self._windows.items()}
        return failures.body(msgspec.json.encode(seen))

    def _refusal(self, window: Window, reason: str, wait_s: float) -> Script:
        wait: Headers = (("retry-after-ms", str(int(wait_s * 1000) + 1)),) if wait_s else ()
        return failures.failure(
            429,
            f"Rate limit reached: {reason}.",
            kind="tokens",
            code="rate_limit_exceeded",
            headers=(*wait, *(self._said(window) if self._headers else ())),
        )

    def _said(self, window: Window) -> Headers:
        pairs = (
            ("requests", window.allowed.requests, window.requests),
            ("tokens", window.allowed.tokens, window.tokens),
        )
        return tuple(
            (f"x-ratelimit-{part}-{name}", str(number))
            for name, limit, used in pairs
            if limit
            for part, number in (("limit", limit), ("remaining", max(0, limit - used)))
        )


def read_limits(path: str) -> LimitsFile:
    """Raises OSError, or ValueError with what is wrong with the file."""
    with open(path, "rb") as file:  # noqa: PTH123
        return msgspec.json.decode(file.read(), type=LimitsFile)


def _with(headers: Headers, script: Script) -> Script:
    head = next(script)
    if isinstance(head, Head):
        head = msgspec.structs.replace(head, headers=(*head.headers, *headers))
    yield head
    yield from script
