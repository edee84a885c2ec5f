"""The gateway and its tokens from the command line, with an embedded stack."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.cli import Cli
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = Cli(
        tmp_path_factory.mktemp("state"),
        tmp_path_factory.mktemp("work"),
        LONGSTREAM_GATEWAY__PORT=str(port),
    )
    yield running
    running.close()


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(cli: Cli) -> None:
    made = cli.run("token", "create", "--name", "ci", "--scope", "submit", "--expires", "2h")
    assert made.code == 0
    token = made.out.strip()
    token_id = token.split("_")[1]
    assert token_id in made.err
    listed = cli.run("token", "list")
    assert token_id in listed.out
    assert "ci\tsubmit" in listed.out
    assert token.split("_", 2)[2] not in listed.out
    (shown,) = (t for t in cli.run("token", "list", "--json").objects() if t["id"] == token_id)
    assert shown["expires"]
    assert cli.run("token", "revoke", token_id).code == 0
    assert "no token" in cli.run("token", "revoke", token_id).complaint


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", "--expires", "soon"], "no duration"),
        (["create", "--expires", "0s"], "no duration"),
        (["create", "--scope", "everything"], "'everything' is not one of"),
        (["create", "--scope", "admin", "--tenant", "acme"], "not bound to a tenant"),
        (["create", "--job", "nojob"], "no job nojob"),
    ],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused_in_one_line(
    cli: Cli, arguments: list[str], complaint: str
) -> None:
    done = cli.run("token", *arguments)
    assert done.code in (1, 2)
    assert complaint in done.err.splitlines()[-1]
    assert done.out == ""


def test_a_port_that_is_taken_is_named(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = cli.run("serve", "--port", port)
    assert done.code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.err


def test_a_gateway_that_nobody_has_a_token_for_says_so(cli: Cli) -> None:
    for token in cli.run("token", "list", "--json").objects():
        cli.run("token", "revoke", token["id"])
    place = cli.work / "url"

    def said() -> list[str]:
        place.unlink(missing_ok=True)
        asked = ("--port", "0", "--require-tokens", "--announce-file", str(place))
        with cli.start("serve", *asked) as serving:
            wait_until("the gateway listens", place.exists, 40)
            serving.send_signal(signal.SIGTERM)
            _, err = serving.communicate(timeout=50)
        return [line for line in err.decode().splitlines() if "longstream token create" in line]

    (line,) = said()
    assert line.startswith("longstream: no token is valid, so all callers are refused")
    assert cli.run("token", "create").code == 0
    assert said() == []


@pytest.mark.slow
def test_up_serves_the_page_and_down_ends_it(cli: Cli) -> None:
    with cli.start("up") as up:
        address = cli.stack.state / "gateway.url"
        wait_until("the gateway serves", address.exists, 40)
        url = address.read_text()

        def answers() -> bool:
            try:
                return httpx.get(url).status_code == 200
            except httpx.TransportError:
                return False

        wait_until("the page is there", answers)
        submitted = httpx.post(f"{url}/jobs", json={"kind": "generate", "prompt": "hello"})
        assert json.loads(submitted.text)["state"] == "waiting"
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=50)
    assert f"the page is at {url}" in err.decode()
    assert cli.stack.gateway.pid() is None
