"""What may be spent: by one job, and in a day, by everybody or by one tenant; and its share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

#: USD; a larger sum is a wrong unit.
Usd = Annotated[float, Meta(gt=0, le=10**9)]

Action = Literal["warn", "hold", "stop"]


class Budget(Struct, frozen=True, kw_only=True):
    """None: no limit. A job that reaches its own limit is stopped, unless the action is `warn`."""

    job_usd: Annotated[Usd | None, "What one job may cost, in USD."] = None
    day_usd: Annotated[Usd | None, "What may be spent in a UTC day, in USD."] = None
    action: Annotated[
        Action,
        "At the day's limit: `warn` in the log, `hold` jobs until the next day while running ones "
        "end, or `stop` those that run and refuse new ones.",
    ] = "hold"

    @property
    def is_set(self) -> bool:
        return self.job_usd is not None or self.day_usd is not None


class Tenant(Budget, frozen=True, kw_only=True):
    """What one tenant may spend, and its share of the line."""

    weight: Annotated[
        float,
        Meta(ge=0.01, le=100),
        "Its share of the line while others wait as well: one of weight 2 gets twice the tokens.",
    ] = 1.0
