"""What became of one prompt: a line of the state file."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tasks.bench.histogram import Histogram
from worker.log.entries import Tokens


class Verdict(StrEnum):
    #: Completed, and the text is to the character what the provider meant.
    EXACT = "exact"
    #: Completed; nobody can tell what was meant.
    COMPLETED = "completed"
    #: Reported as a success, and the text is another.
    WRONG = "wrong"
    TIMEOUT = "timeout"
    ERROR = "error"


GOOD = frozenset({Verdict.EXACT, Verdict.COMPLETED})


class Sample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`detail` names an error, and never holds text of an answer.

    Times are seconds: `first_s` from the attempt's begin to its first token of any kind,
    `first_visible_s` from the submit to the first visible one. `timed` is False when the reader
    came later than the job, so that its times mean nothing. `tokens` are of all attempts, `wasted`
    those whose text was thrown away.
    """

    phase: str
    n: int
    kind: str
    effort: str
    verdict: Verdict
    detail: str = ""
    attempts: int = 1
    timed_out: int = 0
    cut: int = 0
    timed: bool = True
    seconds: float = 0.0
    first_s: float | None = None
    first_visible_s: float | None = None
    visible: Histogram = msgspec.field(default_factory=Histogram)
    thinking: Histogram = msgspec.field(default_factory=Histogram)
    gaps: int = 0
    bursts: int = 0
    clusters: int = 0
    characters: int = 0
    tokens: Tokens | None = None
    wasted: Tokens = Tokens()

    @property
    def good(self) -> bool:
        return self.verdict in GOOD
