"""What the headers of any answer say of the provider's limits, good answers included.

Only requests and tokens of a minute are read: what is said of a day is too coarse to steer by.
Numbers below zero, and words, mean that nothing was said; -1 stands for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

_NAME = re.compile(
    r"(?:x-ratelimit-(?P<part>limit|remaining)-(?P<of>requests|tokens)"
    r"|anthropic-ratelimit-(?P<of_>requests|tokens)-(?P<part_>limit|remaining))"
)


class Limit(msgspec.Struct, frozen=True, gc=False):
    """`dimension`: requests or tokens."""

    dimension: str
    limit: int = -1
    remaining: int = -1


class Limits(msgspec.Struct, frozen=True, gc=False):
    """At most one a dimension."""

    limits: tuple[Limit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.limits)


def limits_in(headers: Mapping[str, str]) -> Limits:
    """Header names are lower case."""
    said: dict[str, dict[str, int]] = {}
    for name, value in headers.items():
        if (found := _NAME.fullmatch(name)) and value.strip().isdecimal():
            of, part = found["of"] or found["of_"], found["part"] or found["part_"]
            said.setdefault(of, {})[part] = int(value)
    return Limits(tuple(Limit(of, **parts) for of, parts in sorted(said.items())))
