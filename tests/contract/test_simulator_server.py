"""The simulator as a process: its routes, its bytes on the wire, and its ledger's truth."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.harness.simulated import chat_ask, chat_text, payloads, sent, steps
from tests.harness.simulator import Simulator, chat, read_reply, read_request_id, request

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    process = Simulator()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def paced() -> Iterator[Simulator]:
    process = Simulator(speed="1")
    yield process
    process.stop()


def test_it_announces_itself_on_stdout_and_in_a_file(tmp_path: Path) -> None:
    place = tmp_path / "announced.json"
    process = Simulator("--announce-file", str(place))

    assert json.loads(place.read_text()) == process.announced
    assert process.announced["pid"] == process.process.pid
    assert list(tmp_path.iterdir()) == [place]
    assert process.stop() == 0


def test_it_stops_on_sigint_while_a_stream_runs() -> None:
    process = Simulator(speed="1")
    with process.ask(CHAT, chat(model="sim:stall")) as link:
        read_request_id(link)
        process.process.send_signal(signal.SIGINT)

        assert process.process.wait(10) == 0
    process.stop()


def test_it_does_not_outlive_the_process_that_started_it() -> None:
    assert Simulator().abandon() == 0


def test_a_taken_port_is_one_clear_line(simulator: Simulator) -> None:
    port = str(simulator.place[1])
    command = [sys.executable, "-m", "tasks.local.simulator", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_limits_that_can_not_be_used_are_one_clear_line(tmp_path: Path) -> None:
    nonsense = tmp_path / "limits.json"
    nonsense.write_text('{"x": 1}')
    for place, said in ((tmp_path / "none.json", "No such file"), (nonsense, "unknown field")):
        command = [sys.executable, "-m", "tasks.local.simulator", "--limits", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

        assert done.returncode == 1
        assert f"cannot use the limits of {place}: " in done.stderr
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_stream_is_exactly_what_the_pure_part_says(simulator: Simulator) -> None:
    body = chat("the same", "gpt-5.5-codex")

    reply = simulator.call(CHAT, body)

    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body == sent(steps(chat_ask("the same")))


def test_speed_changes_the_pace_and_not_the_bytes(paced: Simulator, simulator: Simulator) -> None:
    body = chat("slowly", max_tokens=5)

    assert paced.call(CHAT, body).body == simulator.call(CHAT, body).body


def test_the_ledger_tells_what_a_request_got(simulator: Simulator) -> None:
    reply = simulator.call(CHAT, chat("told", "gpt-5.5-codex", top_k=3), secret="very-secret")

    entry = simulator.entry(reply.request_id)

    assert entry["visible_sent"] == entry["visible"] == chat_text(reply.body)
    assert entry["bytes_sent"] == len(reply.body)
    assert entry["usage"]["reasoning_tokens"] > 0
    assert (entry["finished"], entry["client_disconnected"]) == (True, False)
    assert entry["parameters"]["top_k"] == 3
    assert "messages" not in entry["parameters"]
    assert "very-secret" not in json.dumps(entry)


def test_the_ledger_lists_the_last_requests(simulator: Simulator) -> None:
    ids = [simulator.call(CHAT, chat(f"{number}")).request_id for number in range(3)]

    listed = simulator.call("/ledger?last=2").json()

    assert [entry["id"] for entry in listed] == ids[1:]


def test_a_request_without_stream_gets_one_object(simulator: Simulator) -> None:
    reply = simulator.call(CHAT, chat("whole", stream=False))

    message = reply.json()["choices"][0]["message"]
    assert message["content"] == simulator.entry(reply.request_id)["visible_sent"]
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "body", "secret", "status", "code", "param"),
    [
        (CHAT, chat(), None, 401, None, None),
        (CHAT, chat(), "invalid-7", 401, "invalid_api_key", None),
        ("/v1/models", None, "invalid", 401, "invalid_api_key", None),
        (CHAT, chat(model="gpt-0"), "k", 404, "model_not_found", "model"),
        ("/v1/models/gpt-0", None, "k", 404, "model_not_found", "model"),
        ("/v1/nothing", None, "k", 404, "unknown_url", None),
        (CHAT, b"{", "k", 400, None, None),
        (CHAT, {"model": "sim:plain"}, "k", 400, "missing_required_parameter", "messages"),
        (CHAT, chat(messages="x"), "k", 400, "invalid_type", "messages"),
        (CHAT, chat(messages=[]), "k", 400, None, "messages"),
        ("/v1/responses", {"model": "sim:plain"}, "k", 400, "missing_required_parameter", "input"),
    ],
)
def test_a_refused_request_gets_an_error_object_that_names_the_cause(
    simulator: Simulator,
    path: str,
    body: object,
    secret: str | None,
    status: int,
    code: str | None,
    param: str | None,
) -> None:
    reply = simulator.call(path, body, secret)

    error = reply.json()["error"]
    assert (reply.status, error["code"], error["param"]) == (status, code, param)
    assert reply.request_id.startswith("req_")


def test_the_models_are_listed(simulator: Simulator) -> None:
    names = {model["id"] for model in simulator.call("/v1/models").json()["data"]}

    assert {"gpt-5.5-codex", "sim:plain", "claude-sonnet-4.5", "deepseek-v3.2"} <= names


def test_health_answers_without_a_key(simulator: Simulator) -> None:
    assert simulator.call("/health", secret=None).json()["status"] == "ok"


def test_one_connection_carries_many_requests(simulator: Simulator) -> None:
    with simulator.connect() as link:
        for number in range(5):
            link.sendall(request(CHAT, chat(f"kept {number}")))
            reply = read_reply(link)
            assert reply.complete
            assert chat_text(reply.body)


def test_a_chunked_request_with_expect_is_read(simulator: Simulator) -> None:
    data = json.dumps(chat("in chunks")).encode()
    with simulator.connect() as link:
        link.sendall(
            f"POST {CHAT} HTTP/1.1\r\nauthorization: Bearer k\r\n"
            "expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        assert link.recv(100).startswith(b"HTTP/1.1 100 ")
        for piece in (data[:10], data[10:]):
            link.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        link.sendall(b"0\r\n\r\n")

        assert chat_text(read_reply(link).body)


def test_a_client_of_http_1_0_gets_a_body_without_chunks(simulator: Simulator) -> None:
    with simulator.connect() as link:
        link.sendall(request(CHAT, chat("old")).replace(b"HTTP/1.1", b"HTTP/1.0"))
        reply = read_reply(link)

    assert "transfer-encoding" not in reply.headers
    assert reply.body == sent(steps(chat_ask("old", "sim:plain")))


def test_bytes_that_are_no_request_get_a_400(simulator: Simulator) -> None:
    with simulator.connect() as link:
        link.sendall(b"nonsense\r\n\r\n")

        assert read_reply(link).status == 400


def test_429_is_answered_once_a_prompt(simulator: Simulator) -> None:
    first = simulator.call(CHAT, chat("limited", "sim:429"))
    second = simulator.call(CHAT, chat("limited", "sim:429"))
    other = simulator.call(CHAT, chat("another", "sim:429"))

    assert (first.status, first.headers["retry-after"]) == (429, "1")
    assert (second.status, other.status) == (200, 429)


def test_a_reset_stream_ends_in_rst_and_half_of_the_text(simulator: Simulator) -> None:
    with simulator.ask(CHAT, chat(model="sim:reset")) as link:
        reply = read_reply(link)

    assert reply.reset
    entry = simulator.entry_once(reply.request_id, "ended")
    assert chat_text(reply.body) == entry["visible_sent"]
    assert entry["ending"] == "reset"
    assert 0 < len(entry["visible_sent"]) < len(entry["visible"])
    assert not entry["finish"]


def test_a_stream_without_its_end_ends_cleanly(simulator: Simulator) -> None:
    reply = simulator.call(CHAT, chat(model="sim:eof"))

    assert reply.complete
    assert b"[DONE]" not in reply.body
    assert payloads(reply.body)[-1]["choices"][0]["finish_reason"] is None


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_is_noticed_within_a_second(paced: Simulator, how: str) -> None:
    with paced.ask(CHAT, chat(f"left by {how}", "sim:slow")) as link:
        request_id = read_request_id(link)
        if how == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    entry = paced.entry_once(request_id, "client_disconnected")

    assert entry["ended"] - entry["arrived"] < 1.0
    assert not entry["finished"]
    assert len(entry["visible_sent"]) < len(entry["visible"])


def test_a_client_that_leaves_a_silent_stream_is_noticed(simulator: Simulator) -> None:
    with simulator.ask(CHAT, chat(model="sim:stall")) as link:
        request_id = read_request_id(link)
        assert simulator.entry_once(request_id, "finished")["ending"] == "hang"

    assert simulator.entry_once(request_id, "client_disconnected")["ended"]


def test_fifty_concurrent_streams_are_all_exact(simulator: Simulator) -> None:
    prompts = [f"stream {number}" for number in range(50)]

    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda p: simulator.call(CHAT, chat(p, "gpt-5.5-codex")), prompts))

    for prompt, reply in zip(prompts, replies, strict=True):
        assert reply.complete
        assert reply.body == sent(steps(chat_ask(prompt)))
        assert simulator.entry(reply.request_id)["visible_sent"] == chat_text(reply.body)
