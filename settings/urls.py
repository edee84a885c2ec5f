"""The URLs longstream accepts, and how it shows them.

A Redis URL may carry a password and is shown masked. A provider's base_url must not carry one:
its secret stands beside it. Plain http is for loopback alone, so that no secret travels in clear.
Messages raised here never contain the URL.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from settings.profiles import PROFILES

#: What a user may write, and what the Redis client understands.
REDIS_SCHEMES = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
}

_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|[0-9a-f:.]+", re.IGNORECASE)


def redis_url(text: str) -> str:
    """`text` as the Redis client wants it, or ValueError saying what is expected."""
    scheme, found, rest = text.partition("://")
    known = REDIS_SCHEMES.get(scheme.lower()) if found else None
    if known is None:
        schemes = ", ".join(f"{name}://" for name in REDIS_SCHEMES)
        raise ValueError(f"expected a URL that begins with one of {schemes}")
    if not _PLAIN.fullmatch(rest) or not _is_server(known, rest):
        raise ValueError(
            "expected unix:///path/to/socket"
            if known == "unix"
            else f"expected {scheme.lower()}://[user:password@]host[:port][/number]"
            " (special characters of the password percent-encoded)"
        )
    return f"{known}://{rest}"


def _is_server(scheme: str, rest: str) -> bool:
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port
    except ValueError:
        return False
    if parts.fragment:
        return False
    if scheme == "unix":
        return not parts.hostname and parts.path.startswith("/") and parts.path != "/"
    return _is_host(parts.hostname) and port != 0 and re.fullmatch(r"/?\d*", parts.path) is not None


def masked(url: str) -> str:
    """`url` without its credentials: fit for a log, useless for a connection."""
    scheme, found, rest = url.partition("://")
    if not found:
        return "***"
    # Up to the last @, not the first: a password that was not encoded may hold any mark.
    _, at, place = rest.rpartition("@")
    server, _, query = place.partition("?")
    shown = f"{scheme}://{'***@' if at else ''}{server}"
    return f"{shown}?{_masked_query(query)}" if query else shown


def _masked_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(name, _masked_value(name, value)) for name, value in pairs], safe="*")


def _masked_value(name: str, value: str) -> str:
    return value if name in {"db", "virtual_host"} and value.isdigit() else "***"


def for_celery(url: str) -> str:
    """`url`, accepted by `redis_url`, as Celery's broker and result backend want it.

    They name sockets their own way, and leave certificates unchecked unless told to check.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "unix":
        query["virtual_host"] = query.pop("db", "0")
        return f"redis+socket://{parts.netloc}{parts.path}?{urlencode(query)}"
    if parts.scheme == "rediss":
        query.setdefault("ssl_cert_reqs", "required")
    options = urlencode(query, quote_via=quote, safe="/")
    return parts._replace(query=options).geturl()


def base_url(text: str) -> str:
    """`text` without a closing slash, or ValueError saying what is expected of a base_url."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    wrong = (
        parts.scheme not in {"http", "https"}
        or not _PLAIN.fullmatch(text)
        or not _is_host(parts.hostname)
        or port == 0
        or bool({"@", "?", "#", "\\"} & set(text))
    )
    if wrong:
        raise ValueError("expected https://host[:port]/path, without user, query or fragment")
    return text.rstrip("/")


def travels_in_clear(url: str) -> bool:
    """True when what is sent to `url` can be read on the way."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_loopback(parts.hostname or "")


def provider_at(url: str) -> str | None:
    """The profile whose own host `url` names, if any."""
    host = urlsplit(url).hostname
    for name, profile in PROFILES.items():
        if profile.base_url is not None and urlsplit(profile.base_url).hostname == host:
            return name
    return None


def _is_host(host: str | None) -> bool:
    return host is not None and _HOST.fullmatch(host) is not None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
