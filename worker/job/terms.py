"""On which terms a job runs, as whoever submits it may choose."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class OnInterrupt(StrEnum):
    """What becomes of a job's text when its stream is cut."""

    #: Take the provider's response up again if it goes on there, else restart, marked as such.
    AUTO = "auto"
    RESTART = "restart"
    #: Ask for the rest behind the text; an approximation of what would have come.
    CONTINUE = "continue"
    FAIL = "fail"


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On which terms a job runs. `deadline_s` counts from the submit; None: no deadline. A job that
    has cost `max_cost_usd` is stopped and keeps its text; None: what the settings say."""

    on_interrupt: OnInterrupt = OnInterrupt.AUTO
    deadline_s: float | None = None
    max_cost_usd: float | None = None


#: What a job gets that asks for nothing.
USUAL = Terms()
