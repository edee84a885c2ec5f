"""Which proxy a URL goes through: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.

Read here and not by the HTTP library, which does so only for connections it sets up itself, and
then without TCP keepalive, and which knows no address ranges in `NO_PROXY`.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.request import getproxies


class Proxies:
    """The proxies of an environment, as `urllib.request.getproxies` names them."""

    def __init__(self, found: Mapping[str, str] | None = None) -> None:
        found = getproxies() if found is None else found
        self._of = {
            scheme: proxy if "://" in proxy else f"http://{proxy}"
            for scheme, proxy in found.items()
            if scheme in ("http", "https", "all") and proxy
        }
        self._direct = [entry.strip().lower() for entry in found.get("no", "").split(",")]

    @property
    def urls(self) -> frozenset[str]:
        return frozenset(self._of.values())

    def proxy_for(self, scheme: str, host: str, port: int | None) -> str | None:
        """The proxy's URL, or None for a direct connection."""
        proxy = self._of.get(scheme) or self._of.get("all")
        host = host.lower().strip("[]")
        if proxy is None or any(_covers(entry, host, port) for entry in self._direct if entry):
            return None
        return proxy


def _covers(entry: str, host: str, port: int | None) -> bool:
    """Whether a NO_PROXY entry means this host: a name with its subdomains, an address, a range."""
    if entry == "*":
        return True
    name, colon, wanted_port = entry.rpartition(":")
    if colon and wanted_port.isdigit() and (":" not in name or name.endswith("]")):
        if port is None or int(wanted_port) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*").removeprefix(".")
    return host == entry or host.endswith(f".{entry}") or _in_range(host, entry)


def _in_range(host: str, entry: str) -> bool:
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False
