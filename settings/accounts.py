"""Accounts: who owns the limits that keys share, and what those limits are."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta, Struct

Limit = Annotated[int, Meta(ge=1, le=10**12)]
Text = Annotated[str, Meta(min_length=1)]

Refill = Literal["strict", "slices", "bucket"]
Accounting = Literal["refund", "admission", "produced"]


class Limits(Struct, frozen=True, kw_only=True):
    """What may be used of one thing. None means: no limit known."""

    streams: Annotated[Limit | None, "Streams open at once."] = None
    requests_per_minute: Annotated[Limit | None, "Requests a minute."] = None
    tokens_per_minute: Annotated[Limit | None, "Tokens a minute."] = None
    requests_per_day: Annotated[Limit | None, "Requests a day."] = None


class Family(Limits, frozen=True, kw_only=True):
    """Limits of some models of an account, on top of the account's own."""

    models: str

    def serves(self, model: str) -> bool:
        return fnmatchcase(model, self.models)


class Account(Limits, frozen=True, kw_only=True):
    """The owner of the limits."""

    name: str
    refill: Annotated[
        Refill,
        "How the limits are kept: `strict` in any minute, `slices` in any 10 seconds, "
        "`bucket` as a bucket that holds a minute and refills evenly.",
    ] = "strict"
    burst: Annotated[
        float,
        Meta(ge=0.001, le=0.5),
        "The share of a limit that may be used at once; the rest is spread evenly.",
    ] = 0.05
    accounting: Annotated[
        Accounting,
        "What the provider counts: `refund` the estimate, corrected at the end; "
        "`admission` the largest possible answer, never corrected; `produced` what is produced.",
    ] = "refund"
    day_zone: Annotated[
        Text,
        "Time zone whose midnight begins a new day, or `rolling`: a day is the last 24 hours.",
    ] = "UTC"
    families: tuple[Family, ...] = ()
