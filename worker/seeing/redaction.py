"""No credential in a log line: the last step before one is rendered, whoever wrote it.

Three nets, each for what the others let through: the secrets this process knows, wherever they
stand; fields and assignments whose name says what they hold; and texts that look like a credential,
by their prefix, their place in a URL or a header, or because no word and no path looks like that.
What is caught becomes `[redacted]`. Ids of jobs and traces are let through.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlsplit

from settings.keys import SIMULATED_SECRET
from settings.model import Settings
from settings.problems import SECRET_CHARS

MARK = "[redacted]"

#: Deeper than this nothing is shown, and no longer text.
_DEEPEST = 8
_LONGEST = 64 * 1024

#: Fields that may hold an id of 32 hexadecimal digits.
_IDS = frozenset({"job", "request", "trace", "worker"})

#: How the names of what holds a credential end. Every repetition is bounded, here and below: a
#: long line must take no long time.
_NAMES = (
    r"[\w.-]{0,40}(?:authorization|api[-_ ]?key|secret(?:[-_]\w{1,20})?|passw(?:or)?d|pwd"
    r"|passphrase|cookie|credentials?|token|signature"
    r"|(?:private|access|signing|subscription)[-_ ]?key)"
)
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)

#: Each with what stays of a match.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END[^-]*-----|\Z)", re.DOTALL), ""),
    (re.compile(r"(://)[^\s/?#'\"<>]{0,500}@"), rf"\1{MARK}@"),
    (re.compile(r"(://[^\s?#'\"<>]{0,500}\?)[^\s#'\"<>]+"), rf"\1{MARK}"),
    (re.compile(r"\b(bearer)\s+[^\s'\",;\\]{4,}", re.IGNORECASE), rf"\1 {MARK}"),
    (
        re.compile(
            r"\b(basic|digest|negotiate|apikey|token)\s+(?=[^\s'\",;]{0,200}[\d=])[\w.~+/=-]{8,}",
            re.IGNORECASE,
        ),
        rf"\1 {MARK}",
    ),
    (
        re.compile(
            rf"\b((?:{_NAMES})\\?['\"]?\s*(?:[:=]|=>|(?<=['\"]),)\s*b?\\?['\"]?)(?!{re.escape(MARK)})"
            r"(?!bearer\b|basic\b)[^\s'\",;&{}()\\]{4,}",
            re.IGNORECASE,
        ),
        rf"\1{MARK}",
    ),
    (re.compile(r"(?<![A-Za-z0-9])[spr]k[-_][A-Za-z0-9_-]{6,}"), MARK),
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:gsk|xai|r8|hf|gh[oprsu]|glpat|github_pat|npm|pypi|nvapi|pplx|xox[a-z])"
            r"[-_](?=[A-Za-z_-]{0,100}\d)[A-Za-z0-9_-]{8,}"
        ),
        MARK,
    ),
    (re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{12,}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])(?:AIza|ya29\.)[A-Za-z0-9_-]{20,}"), MARK),
    (re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}"), MARK),
)

#: What every text has that the patterns and the look at runs catch. Most texts have none of it.
_SHAPES = re.compile(
    r"[A-Za-z0-9+/_=-]{24}|://|BEGIN|AKIA|ASIA|eyJ|[spr]k[-_]|(?:gsk|xai|r8|hf|gh[oprsu]|glpat|pat|npm"
    r"|pypi|nvapi|pplx|xox[a-z])[-_]"
)
#: In small letters: to search without regard to case takes ten times as long.
_WORDS = re.compile(
    r"bearer|basic|digest|negotiate|apikey|token|authorization|api.?key|secret|passw|passphrase|pwd"
    r"|cookie|credential|signature|(?:private|access|signing|subscription).?key"
)

_RUN = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")

#: The share of neighbours of different kinds (small, capital, digit, other): words and paths stay
#: below, and what a generator of keys made lies above.
_MIXED, _MIXED_SMALL = 0.4, 0.25
_FEWEST_DIGITS = 2

#: Set by the steps before this one, after whatever a caller gave.
_OWN = frozenset({"timestamp", "level"})

_known: set[str] = set()
#: Any of the known.
_any_known: re.Pattern[str] | None = None


def know(settings: Settings) -> None:
    """From now on, what these settings hold as a secret is caught wherever it stands."""
    global _any_known
    keys = [key.secret.get_secret_value() for pool in settings.pools.values() for key in pool.keys]
    urls = (settings.redis_url, settings.broker_url, settings.result_url)
    passwords = [urlsplit(url).password for url in urls if url]
    for secret in (*keys, *passwords):
        if secret and secret != SIMULATED_SECRET and len(secret) >= SECRET_CHARS:
            encoded = base64.b64encode(secret.encode()).decode().rstrip("=")
            _known.update((secret, quote(secret, safe=""), encoded))
    longest_first = sorted(_known, key=len, reverse=True)
    _any_known = re.compile("|".join(map(re.escape, longest_first))) if _known else None
    _shown_name.cache_clear()


def forget() -> None:
    """Know no secrets any more."""
    global _any_known
    _known.clear()
    _any_known = None


def processor(_: Any, __: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The structlog step."""
    return {
        _key(name): value if name in _OWN else _field(str(name), value)
        for name, value in event.items()
    }


def redacted(text: str, *, ids: bool = False) -> str:
    """The text without what is, or looks like, a credential. `ids`: 32 hexadecimal digits pass."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    if _any_known is not None:
        text = _any_known.sub(MARK, text)
    if not _is_suspect(text):
        return text
    for pattern, left in _PATTERNS:
        text = pattern.sub(left or MARK, text)
    return _RUN.sub(lambda run: MARK if _is_opaque(run, ids=ids) else run[0], text)


def _is_suspect(text: str) -> bool:
    return _SHAPES.search(text) is not None or _WORDS.search(text.lower()) is not None


def _field(name: str, value: Any) -> Any:
    if _is_secret(name) and not isinstance(value, bool | int | float | None):
        return MARK
    return _value(value, ids=name in _IDS)


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None


def _value(value: Any, depth: int = 0, *, ids: bool = False) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redacted(str(value), ids=ids)
    if isinstance(value, bytes | bytearray | memoryview):
        return redacted(bytes(value).decode("utf-8", "replace"), ids=ids)
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {_key(name): _inner(_told(name), part, depth) for name, part in value.items()}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
        # Headers often come as pairs.
        return [_value(value[0], depth + 1), _inner(_told(value[0]), value[1], depth)]
    if isinstance(value, list | tuple | AbstractSet):
        return [_value(part, depth + 1) for part in value]
    return redacted(_told(value), ids=ids)


def _inner(name: str, value: Any, depth: int) -> Any:
    if _is_secret(name) and not isinstance(value, bool | int | float | None):
        return MARK
    return _value(value, depth + 1, ids=name in _IDS)


def _key(name: Any) -> str:
    return _shown_name(_told(name))


@lru_cache(1024)
def _shown_name(name: str) -> str:
    return redacted(name)


def _told(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception as error:
        return f"<{type(value).__name__}: no repr ({type(error).__name__})>"


def _is_opaque(found: re.Match[str], *, ids: bool) -> bool:
    """True for what looks made by chance: no word, no path, no name."""
    run = found[0]
    if _UUID.fullmatch(run):
        return False
    if _HEX.fullmatch(run):
        return len(run) != 32 or not (ids or _is_of_a_task(found))
    kinds = [_kind(letter) for letter in run]
    if kinds.count("digit") < _FEWEST_DIGITS:
        # A key of letters alone is rare, and mixes its cases.
        return kinds.count("other") == 0 and _mixed(kinds) >= _MIXED
    if "capital" in kinds and "small" in kinds:
        return _mixed(kinds) >= _MIXED
    return "other" not in kinds and _mixed(kinds) >= _MIXED_SMALL


def _is_of_a_task(found: re.Match[str]) -> bool:
    """Celery writes the id of a task in brackets behind its name."""
    text, start, end = found.string, found.start(), found.end()
    return start > 1 and text[start - 2].isalnum() and text[start - 1] + text[end : end + 1] == "[]"


def _mixed(kinds: list[str]) -> float:
    return sum(one != other for one, other in pairwise(kinds)) / len(kinds)


def _kind(letter: str) -> str:
    if letter.isdigit():
        return "digit"
    if letter.isalpha():
        return "small" if letter.islower() else "capital"
    return "other"
