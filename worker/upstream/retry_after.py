"""How long a provider asks to wait, and which of its limits was hit.

In order of trust: `retry-after-ms`, `retry-after` (seconds, or a date against the answer's own
`Date`), the reset of a limit whose `remaining` is 0, and the words of the error. A wait is capped;
zero, the past and nonsense count as no answer, so that nobody retries in a hot loop.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec

#: A week: the longest window that limits are given for. What is longer is nonsense: a day, then.
LONGEST_S = 7 * 86_400.0
CAP_S = 86_400.0

#: A "relative" number this large is a point in time, in seconds or in milliseconds. None of them
#: is before 2020: what reads as an earlier one is a wait, however absurd.
_EPOCH_S, _EPOCH_MS = 1.6e9, 1.6e12

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
            "d": 86_400.0}  # fmt: skip
_PART = r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h|d)"
_DURATION = re.compile(rf"(?:{_PART}\s*)+")
_WORDS = re.compile(
    r"(?:try again|retry|wait|available|reset\w*)\b[^.\d]{0,20}?"
    rf"((?:{_PART}(?![a-z])\s*)+|\d+(?:\.\d+)?\s*(?:second|sec|minute|min|hour)s?\b)",
    re.I,
)
_LONG_UNITS_S = {"sec": 1.0, "min": 60.0, "hou": 3600.0}

_RESET = re.compile(
    r"(?:x-)?ratelimit-reset(?:-(?P<after>[a-z-]+))?|"
    r"(?:anthropic-)?ratelimit-(?P<before>[a-z-]+)-reset"
)
_DIMENSIONS = (
    ("requests_per_day", re.compile(r"requests?[ -]per[ -]day|\bRPD\b", re.I)),
    ("tokens_per_day", re.compile(r"tokens?[ -]per[ -]day|\bTPD\b", re.I)),
    ("streams", re.compile(r"concurren|parallel|simultaneous", re.I)),
    ("tokens", re.compile(r"\btokens\b|tokens?[ -]per|\bTPM\b", re.I)),
    ("requests", re.compile(r"\brequests\b|requests?[ -]per|\bRPM\b", re.I)),
)


class Advice(msgspec.Struct, frozen=True):
    """`dimension`: streams, requests, tokens, requests_per_day or tokens_per_day."""

    delay_s: float | None = None
    dimension: str | None = None


def advice_in(headers: Mapping[str, str], words: str = "", hint: object = None) -> Advice:
    """What an answer says about waiting. `hint`: a delay given as a field of the body."""
    now = _date(headers.get("date", "")) or time.time()
    exhausted = list(_exhausted(headers, now))
    delays = (
        _milliseconds(headers.get("retry-after-ms", "")),
        _moment(headers.get("retry-after", ""), now),
        max((delay for _, delay in exhausted), default=None),
        _moment(str(hint), now) if isinstance(hint, str | int | float) else None,
        _in_words(words),
        _only_reset(headers, now),
    )
    named = max(exhausted, key=lambda pair: pair[1])[0] if exhausted else None
    return Advice(next((d for d in delays if d is not None), None), dimension_in(words) or named)


def dimension_in(words: str) -> str | None:
    """The limit an error's words speak of."""
    return next((name for name, pattern in _DIMENSIONS if pattern.search(words)), None)


def seconds_of(duration: str) -> float | None:
    """A duration such as `1m30.951s` or `17ms`, in seconds."""
    if not _DURATION.fullmatch(duration.strip()):
        return None
    return sum(float(n) * _UNITS_S[unit.lower()] for n, unit in re.findall(_PART, duration, re.I))


def _milliseconds(value: str) -> float | None:
    number = _number(value)
    return None if number is None else _usable(number / 1000)


def _moment(value: str, now: float) -> float | None:
    """A wait written as a number, a duration, a point in time or a date."""
    value = value.strip()
    number = _number(value)
    if number is not None:
        if number >= _EPOCH_MS:
            return _usable(number / 1000 - now)
        return _usable(number - now if number >= _EPOCH_S else number)
    if (duration := seconds_of(value)) is not None:
        return _usable(duration)
    date = _date(value)
    return None if date is None else _usable(date - now)


def _usable(delay_s: float) -> float | None:
    if math.isnan(delay_s) or delay_s <= 0:
        return None
    return delay_s if delay_s <= LONGEST_S else CAP_S


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _date(value: str) -> float | None:
    """A date as HTTP or RFC 3339 writes it, in seconds since the epoch."""
    if not any(character.isdigit() for character in value):
        return None
    try:
        return datetime.fromisoformat(value).astimezone().timestamp()
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _exhausted(headers: Mapping[str, str], now: float) -> Iterator[tuple[str, float]]:
    """The limits that nothing remains of, with the time until their reset."""
    for name, value in headers.items():
        found = _RESET.fullmatch(name)
        if found is None:
            continue
        limit = found["after"] or found["before"] or ""
        remaining = _number(headers.get(name.replace("reset", "remaining"), ""))
        delay = _moment(value, now)
        if remaining == 0 and delay is not None:
            yield dimension_in(limit.replace("-", " ")) or "requests", delay


def _only_reset(headers: Mapping[str, str], now: float) -> float | None:
    """A reset that stands alone, with nothing that says what remains."""
    resets = [name for name in headers if _RESET.fullmatch(name)]
    if len(resets) != 1 or resets[0].replace("reset", "remaining") in headers:
        return None
    return _moment(headers[resets[0]], now)


def _in_words(words: str) -> float | None:
    found = _WORDS.search(words)
    if found is None:
        return None
    duration = found[1].strip().lower()
    if (seconds := seconds_of(duration)) is not None:
        return _usable(seconds)
    number, unit = re.match(r"([\d.]+)\s*([a-z]{3})", duration).groups()  # type: ignore[union-attr]
    return _usable(float(number) * _LONG_UNITS_S[unit])
