"""A worker's own address, against clients that are slow, many, rude or gone."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from settings.errors import SettingsError
from settings.model import Settings, WorkerSettings
from tests.harness.valkey import Valkey
from tests.harness.waiting import wait_until
from tests.unit.test_metrics import Part
from worker.seeing import listener as module
from worker.seeing.listener import Listener
from worker.seeing.vitals import Vitals


def vitals() -> Vitals:
    return Vitals(WorkerSettings(), Part(), Part(), Part())


@pytest.fixture
def address(valkey: Valkey) -> Iterator[tuple[str, int]]:
    listener = Listener(replace(Settings(), redis_url=valkey.url), vitals())
    host, _, port = listener.start("127.0.0.1:0").rpartition(":")
    with closing(listener):
        yield host, int(port)


def status(address: tuple[str, int], path: str = "/healthz", method: str = "GET") -> int:
    with closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request(method, path)
        return connection.getresponse().status


def said(address: tuple[str, int], raw: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(address, 20) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_only_what_is_there_can_be_asked_for(address: tuple[str, int]) -> None:
    assert status(address) == 200
    assert status(address, "/metrics?name=x") == 200
    assert [status(address, path) for path in ("/", "/healthz/", "/../healthz", "//")] == [404] * 4
    assert [status(address, method=method) for method in ("POST", "HEAD", "X")] == [501] * 3


def test_a_part_that_fails_is_answered_as_a_bug_and_logged(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Settings) -> None:
        raise KeyError("pool")

    monkeypatch.setattr(module, "readiness", broken)
    with capture_logs() as logs:
        assert status(address, "/readyz?x=1") == 500
    assert [(line["event"], line["path"]) for line in logs] == [("listener.failed", "/readyz")]


@pytest.mark.parametrize(
    "raw",
    [b"", b"\r\n\r\n", b"\xff\x00nonsense\r\n\r\n", b"GET " + b"a" * 100_000 + b" HTTP/1.1\r\n"],
)
def test_nonsense_is_refused_and_costs_nobody_anything(
    address: tuple[str, int], raw: bytes
) -> None:
    reply = said(address, raw)
    assert not reply or b"400" in reply or b"414" in reply
    assert status(address) == 200


def test_idle_and_dripping_clients_are_cut_and_hold_up_no_probe(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CLIENT_S", 1.0)
    listener = Listener(replace(Settings(), redis_url=valkey.url), vitals())
    host, _, port = listener.start("127.0.0.1:0").rpartition(":")
    address = (host, int(port))
    with closing(listener), ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(12)]
        assert status(address) == 200
        drip = idle[0]
        drip.settimeout(0.05)

        def cut() -> bool:
            """Each byte comes well before the last one's time is over."""
            try:
                drip.sendall(b"x")
                return drip.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until("the dripping client is cut", cut, 10)
        wait_until("the idle ones are", lambda: all(over(client) for client in idle[1:]), 10)


def over(client: socket.socket) -> bool:
    client.settimeout(0.05)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_more_clients_than_there_are_places_are_refused_until_one_is_free(
    valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    listener = Listener(replace(Settings(), redis_url=valkey.url), vitals())
    host, _, port = listener.start("127.0.0.1:0").rpartition(":")
    address = (host, int(port))
    with closing(listener), ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(2)]
        wait_until("the places are taken", lambda: refused(address))
        held[0].close()
        wait_until("there is one again", lambda: not refused(address))


def refused(address: tuple[str, int]) -> bool:
    try:
        return status(address) != 200
    except (http.client.HTTPException, OSError):
        return True


@pytest.mark.parametrize("wrong", ["9464", "host", ":1", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused_by_name(valkey: Valkey, wrong: str) -> None:
    listener = Listener(replace(Settings(), redis_url=valkey.url), vitals())

    with pytest.raises(SettingsError, match=r"worker\.listen"):
        listener.start(wrong)
