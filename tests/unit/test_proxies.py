"""Which proxy a URL goes through."""

from __future__ import annotations

import pytest

from worker.upstream.proxies import Proxies

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("entry", "host", "port", "direct"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "api.example.com", 443, True),
        (".example.com", "api.example.com", 443, True),
        ("*.example.com", "api.example.com", 443, True),
        ("example.com", "wwwexample.com", 443, False),
        ("Example.COM", "example.com", 443, True),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False),
        ("10.1.2.3", "10.1.2.3", 80, True),
        ("::1", "::1", 80, True),
        ("[::1]:80", "::1", 80, True),
        ("fd00::/8", "fd12::1", 80, True),
        ("localhost", "localhost", 80, True),
        ("*", "anything", 80, True),
        ("a, example.com ,b", "example.com", 80, True),
        ("", "example.com", 80, False),
    ],
)
def test_no_proxy(entry: str, host: str, port: int, direct: bool) -> None:
    proxies = Proxies({"all": PROXY, "no": entry})

    assert proxies.proxy_for("https", host, port) == (None if direct else PROXY)


def test_each_scheme_has_its_proxy_and_all_is_the_last_resort() -> None:
    proxies = Proxies({"http": "one:1", "https": "http://two:2", "all": "http://three:3"})

    assert proxies.proxy_for("http", "h", 80) == "http://one:1"
    assert proxies.proxy_for("https", "h", 443) == "http://two:2"
    assert proxies.proxy_for("ftp", "h", 21) == "http://three:3"
    assert proxies.urls == {"http://one:1", "http://two:2", "http://three:3"}


def test_without_proxies_everything_is_direct() -> None:
    assert Proxies({"no": "x"}).proxy_for("http", "h", 80) is None
