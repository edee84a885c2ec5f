"""What the headers of any answer say of the provider's limits and whose they are, good answers
included.

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

_ORGANISATION = ("openai-organization", "anthropic-organization-id")
_ORGANISATION_CHARS = 100


class Limit(msgspec.Struct, frozen=True, gc=False):
    """`dimension`: requests or tokens."""

    dimension: str
    limit: int = -1
    remaining: int = -1


class Limits(msgspec.Struct, frozen=True, gc=False):
    """At most one a dimension. `organisation`: who the provider says the key belongs to."""

    limits: tuple[Limit, ...] = ()
    organisation: str = ""

    def __bool__(self) -> bool:
        return bool(self.limits or self.organisation)


def limits_in(headers: Mapping[str, str]) -> Limits:
    """Header names are lower case."""
    said: dict[str, dict[str, int]] = {}
    for name, value in headers.items():
        if (found := _NAME.fullmatch(name)) and value.strip().isdecimal():
            of, part = found["of"] or found["of_"], found["part"] or found["part_"]
            said.setdefault(of, {})[part] = int(value)
    organisation = next((headers[name] for name in _ORGANISATION if headers.get(name)), "")
    return Limits(
        tuple(Limit(of, **parts) for of, parts in sorted(said.items())),
        organisation.strip()[:_ORGANISATION_CHARS],
    )
