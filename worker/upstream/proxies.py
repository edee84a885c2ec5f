"""Which proxy a URL goes through: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.

The HTTP library reads these itself only while it builds its connections itself, and then without
TCP keepalive; so they are read here.
"""

from __future__ import annotations

from urllib.request import getproxies


def environment_proxies() -> dict[str, str | None]:
    """URL patterns and their proxies, as the environment says; None goes straight."""
    found = getproxies()
    bare = [host.strip() for host in found.get("no", "").split(",") if host.strip()]
    if "*" in bare:
        return {}
    proxies: dict[str, str | None] = {}
    for scheme in ("http", "https", "all"):
        if proxy := found.get(scheme):
            proxies[f"{scheme}://"] = proxy if "://" in proxy else f"http://{proxy}"
    if not proxies:
        return {}
    return proxies | {pattern: None for host in bare for pattern in _patterns(host)}


def _patterns(host: str) -> list[str]:
    """How a NO_PROXY entry matches: a name with and without subdomains, an address exactly."""
    if "://" in host:
        return [host]
    if host.count(":") > 1:
        return [f"all://[{host.strip('[]')}]"]
    name, colon, port = host.partition(":")
    name = name.removeprefix("*").removeprefix(".")
    if name == "localhost" or name.replace(".", "").isdigit():
        return [f"all://{name}{colon}{port}"]
    return [f"all://{name}{colon}{port}", f"all://*.{name}{colon}{port}"]
