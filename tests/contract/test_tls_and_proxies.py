"""Private authorities are added, verification stays on, and proxies are gone through."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from settings.errors import SettingsError
from settings.model import Clocks
from tests.harness.asking import REQUEST, key_for, quick_client, text_of
from tests.harness.proxy import ForwardProxy
from tests.harness.wire import (
    DONE,
    HANG,
    RESET,
    USAGE,
    Script,
    WireServer,
    chunk,
    delta,
    head,
    stream,
)
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.tls import ssl_context

ON = ("asyncio", "engine")

WHOLE = stream(delta("stop", content="a") + USAGE + DONE)
VARIABLES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY",
    "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def root(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "root.pem"
    authority.cert_pem.write_to_path(path)
    return path


def server_context(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest.fixture
async def private(authority: trustme.CA) -> AsyncIterator[WireServer]:
    async with WireServer(WHOLE, ssl=server_context(authority)) as server:
        yield server


async def read(server: WireServer, ca_bundle: str | None = None) -> str:
    async with Client(Clocks(connect_s=5, read_s=5), ca_bundle) as client:
        lists = client.stream(REQUEST, key_for(server))
        return text_of([happening async for batch in lists for happening in batch])


async def refused(server: WireServer, ca_bundle: str | None = None) -> UpstreamFailure:
    with pytest.raises(UpstreamFailure) as caught:
        await read(server, ca_bundle)
    return caught.value


async def test_an_unknown_authority_is_refused_with_the_way_out(private: WireServer) -> None:
    failure = await refused(private)

    assert (failure.kind, failure.fault, failure.retryable) == ("tls", "network", False)
    assert "ca_bundle" in str(failure)


async def test_a_ca_bundle_makes_it_trusted(private: WireServer, root: Path) -> None:
    assert await read(private, str(root)) == "a"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_each_variable_makes_it_trusted(
    private: WireServer, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(root))

    assert await read(private) == "a"


async def test_a_directory_of_plain_files_makes_it_trusted(
    private: WireServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", f"{root.parent / 'none'}")
    (root.parent / "none").mkdir()
    assert (await refused(private)).kind == "tls"

    monkeypatch.setenv("SSL_CERT_DIR", f"{root.parent / 'none'}:{root.parent}")
    assert await read(private) == "a"


def test_what_is_added_replaces_no_root_of_the_system(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ssl_context().cert_store_stats()["x509_ca"]
    monkeypatch.setenv("SSL_CERT_FILE", str(root))

    assert before > 10
    assert ssl_context().cert_store_stats()["x509_ca"] == before + 1


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_missing_file_is_reported_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(tmp_path / "gone.pem"))

    with pytest.raises(SettingsError, match=rf"{name}: no such file or directory: .*gone\.pem"):
        ssl_context()


@pytest.mark.parametrize("content", [b"", b"not a certificate"])
def test_a_file_without_certificates_is_reported_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.pem"
    path.write_bytes(content)

    with pytest.raises(SettingsError, match=r"ca_bundle: no certificates .*bad\.pem"):
        ssl_context(str(path))


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, root: Path) -> None:
    async with WireServer(WHOLE, ssl=server_context(authority, "elsewhere.example")) as server:
        assert (await refused(server, str(root))).kind == "tls"


def test_verification_is_always_on(root: Path) -> None:
    context = ssl_context(str(root))

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_server_without_tls_behind_an_https_url_is_no_matter_of_retrying() -> None:
    async def plain_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(plain_only, "127.0.0.1", 0)
    server = WireServer([], ssl=True)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        failure = await refused(server)

    assert (failure.kind, failure.retryable) == ("tls", False)
    assert "check base_url" in str(failure)


async def test_a_time_out_over_tls_is_a_time_out_and_not_a_tls_error(
    authority: trustme.CA, root: Path
) -> None:
    script: Script = [head(), chunk(delta(content="a")), HANG]
    async with (
        WireServer(script, ssl=server_context(authority)) as server,
        Client(Clocks(read_s=0.2), str(root)) as client,
    ):
        lists = client.stream(REQUEST, key_for(server))
        await anext(lists)
        with pytest.raises(UpstreamFailure) as caught:
            await anext(lists)

    assert caught.value.kind == "read_timeout"


async def test_a_connection_cut_over_tls_is_not_the_end_of_an_answer(
    authority: trustme.CA, root: Path
) -> None:
    script: Script = [head(transfer_encoding=""), delta(content="a"), RESET]
    async with WireServer(script, ssl=server_context(authority)) as server:
        failure = await refused(server, str(root))

    assert failure.kind in ("truncated", "connection_lost")


async def test_plain_requests_go_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer(WHOLE) as server, ForwardProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert await read(server) == "a"

    assert proxy.seen == [f"POST {server.base_url}/chat/completions HTTP/1.1"]


async def test_hosts_without_proxy_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WireServer(WHOLE) as server, ForwardProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,127.0.0.0/8")
        assert await read(server) == "a"

    assert proxy.seen == []


async def test_secure_requests_are_tunnelled_and_verified_end_to_end(
    private: WireServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ForwardProxy() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert await read(private, str(root)) == "a"

    assert proxy.seen == [f"CONNECT 127.0.0.1:{private.port} HTTP/1.1"]


async def test_a_proxy_that_intercepts_tls_works_once_its_authority_is_added(
    private: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corporate = trustme.CA()
    corporate.cert_pem.write_to_path(tmp_path / "corporate.pem")
    async with ForwardProxy(intercept=server_context(corporate)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert (await refused(private)).kind == "tls"
        assert await read(private, str(tmp_path / "corporate.pem")) == "a"


async def test_a_proxy_gets_its_credentials_and_says_when_they_are_missing(
    private: WireServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ForwardProxy(credentials="me:secret") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        failure = await refused(private, str(root))
        assert (failure.kind, failure.retryable) == ("proxy_refused", False)

        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:secret@"))
        assert await read(private, str(root)) == "a"


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "gopher://127.0.0.1:1"])
def test_a_proxy_that_cannot_be_used_is_reported_at_the_start(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)

    with pytest.raises(SettingsError, match=proxy.partition(":")[0]):
        Client(Clocks())


async def test_a_proxy_that_is_not_there_is_the_networks_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with WireServer(WHOLE) as server, ForwardProxy() as proxy:
        pass
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    async with quick_client() as client:
        with pytest.raises(UpstreamFailure) as caught:
            await anext(client.stream(REQUEST, key_for(server)))

    assert (caught.value.kind, caught.value.retryable) == ("connect", True)
