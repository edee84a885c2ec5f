"""A file of requests, answered into a file: every line once, whoever is killed on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import Cli
from tests.harness.cluster import ROOT, Cluster
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until

FAULTY = {3: b"{broken", 7: b"\xff", 11: b'{"custom_id": "c-1", "method": "POST"}'}


def line(number: int, **body: Any) -> bytes:
    messages = [{"role": "user", "content": f"Question {number}."}]
    request = {"model": "sim:plain", "messages": messages, "max_tokens": 4} | body
    entry = {"custom_id": f"c-{number}", "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps(entry | {"body": request}).encode()


def requests(folder: Path, count: int, **body: Any) -> Path:
    path = folder / "requests.jsonl"
    path.write_bytes(b"\n".join(FAULTY.get(n, line(n, **body)) for n in range(1, count + 1)))
    return path


class Command:
    """`longstream batch run`, as a process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.output = cluster.state / "results.jsonl"

    def start(self, *arguments: str, source: str = "requests.jsonl") -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tasks.cli", "batch", "run", source]
        return subprocess.Popen(
            [*command, "-o", str(self.output), *arguments],
            cwd=self.cluster.state,
            env=self.cluster.environ | {"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL if source == "requests.jsonl" else subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as process:
            _, said = process.communicate(timeout=60)
        return process.returncode, said

    def piped(self, *lines: bytes, source: str = "-") -> tuple[int, str]:
        """The requests through a pipe."""
        with self.start(source=source) as process:
            _, said = process.communicate(b"\n".join(lines).decode(), timeout=60)
        return process.returncode, said

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.output.read_bytes().splitlines()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def asked(cluster: Cluster) -> int:
    return sum(entry["path"] == "/v1/chat/completions" for entry in cluster.ledger())


def test_every_line_is_answered_once_and_a_faulty_one_stops_nothing(cluster: Cluster) -> None:
    cluster.worker()
    requests(cluster.state, 40)
    command = Command(cluster)

    code, said = command.run("--tenant", "reports")

    records = command.records()
    assert code == 1, said
    assert "40 lines done; 3 with an error" in said
    faulty = {each["error"]["line"]: each["error"]["code"] for each in records if each["error"]}
    assert faulty == {3: "invalid_json", 7: "invalid_encoding", 11: "invalid_url"}
    answered = Counter(each["custom_id"] for each in records if each["response"])
    assert answered == Counter(f"c-{n}" for n in range(1, 41) if n not in FAULTY)
    assert asked(cluster) == 37

    code, said = command.run("--tenant", "reports")
    assert (code, command.records()) == (1, records), "there is nothing left to do"
    assert asked(cluster) == 37
    nothing_left(cluster)

    for left in (b"", line(1) + b"\n" + line(41)):
        (cluster.state / "requests.jsonl").write_bytes(left)
        code, said = command.run()
        assert (code, command.records()) == (1, records)
        assert "results.jsonl answers lines that the requests do not have" in said
    assert asked(cluster) == 37


def test_a_pipe_is_checked_like_a_file_and_errors_are_asked_again(cluster: Cluster) -> None:
    cluster.worker()
    command = Command(cluster)
    refused = line(3, model="sim:r5-400")

    code, said = command.piped(line(1), b"{broken", refused)
    assert code == 1, said
    assert "3 lines done; 2 with an error" in said
    assert "--retry-errors asks for the lines with an error again" in said
    records = command.records()
    code, said = command.piped(line(1), b"{broken", b"", line(4), source="/dev/stdin")
    assert (code, command.records()) == (1, records)
    assert "results.jsonl answers lines that the requests do not have" in said
    code, said = command.piped(line(1), line(2), refused)
    assert (code, command.records()) == (1, records)
    assert "line 2 of the requests has changed" in said
    assert "--retry-errors" in said
    before = asked(cluster)

    mended = cluster.state / "requests.jsonl"
    mended.write_bytes(b"\n".join((line(1), line(2), refused, line(4))))
    code, said = command.run("--retry-errors")

    assert code == 1, said
    assert "4 lines done; 1 with an error, 1 from before" in said
    assert {r["custom_id"]: r["error"] is None for r in command.records()} == {
        "c-1": True,
        "c-2": True,
        "c-3": False,
        "c-4": True,
    }
    assert len(command.records()) == 4
    assert asked(cluster) == before + 3, "the refused one is asked again, and not looked up"


@pytest.mark.slow
def test_the_answers_are_those_of_the_provider(cluster: Cluster) -> None:
    cluster.worker()
    requests(cluster.state, 2)
    command = Command(cluster)
    command.run()

    texts = {entry["visible"] for entry in cluster.ledger()}
    for record in command.records():
        body = record["response"]["body"]
        (choice,) = body["choices"]
        assert choice["message"]["content"] in texts
        assert choice["finish_reason"] == "length"
        assert body["usage"]["completion_tokens"] == 4


def test_a_run_that_was_killed_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, speed="4")
    try:
        cluster.worker("--concurrency", "8")
        requests(tmp_path, 60)
        command = Command(cluster)
        with command.start("--window", "16") as first:
            wait_until(
                "some are answered",
                lambda: command.output.exists() and command.output.read_bytes().count(b"\n") > 12,
            )
            first.kill()
        with command.output.open("ab") as output:
            output.write(b'{"id": "batch_req_half')

        with command.start("--window", "16") as second:
            wait_until("more are answered", lambda: command.output.read_bytes().count(b"\n") > 30)
            second.send_signal(signal.SIGINT)
            _, said = second.communicate(timeout=20)
        assert second.returncode == 130
        assert "the same command collects the answers" in said

        code, said = command.run()
        assert code == 1, said
        names = Counter(record["id"] for record in command.records())
        assert len(names) == 60
        assert set(names.values()) == {1}
        assert asked(cluster) == 57
    finally:
        cluster.close()


def test_a_limit_of_cost_stops_the_run_and_a_higher_one_goes_on(cluster: Cluster) -> None:
    cluster.worker()
    requests(cluster.state, 12, max_tokens=50)
    cluster.configure(
        '[prices."sim:plain"]\ninput = 0\noutput = 1000\n[[pools.simulator.keys]]\n'
        'alias = "simulator"\nprovider = "simulator"\nbase_url = "{base}"\nsecret = "simulated"\n'
    )
    command = Command(cluster)

    code, said = command.run("--max-cost", "0.22")

    answered = [each for each in command.records() if each["response"]]
    assert code == 3, said
    assert "of 0.22 USD: raise --max-cost; then the same command goes on" in said
    assert len(answered) == 4, "0.05 USD each"
    code, said = command.run("--max-cost", "0.22")
    assert (code, asked(cluster)) == (3, 4), "the limit is the whole batch's"
    code, said = command.run("--max-cost", "10")
    assert code == 1, said
    assert len(command.records()) == 12


@pytest.mark.slow
def test_a_model_without_a_price_cannot_be_limited_and_says_so(cluster: Cluster) -> None:
    cluster.worker()
    requests(cluster.state, 2)
    command = Command(cluster)

    code, _ = command.run("--max-cost", "1")

    assert code == 1
    messages = {each["error"]["message"] for each in command.records()}
    (message,) = messages
    assert message.startswith("sim:plain has no known price, so its cost can not be limited")


@pytest.mark.slow
def test_a_worker_of_the_embedded_stack_that_dies_is_started_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cli = Cli(tmp_path_factory.mktemp("state"), tmp_path, LONGSTREAM_SIMULATOR_SPEED="4")
    requests(tmp_path, 2)
    try:
        with cli.start("batch", "run", "requests.jsonl", "-o", "out.jsonl") as process:
            # The output is opened once the stack is there.
            wait_until("the batch begins", (tmp_path / "out.jsonl").exists, 30)
            with cli.store() as client:
                wait_until("jobs run", lambda: _running(client) == 2, 30)
            cli.kill_worker()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    finally:
        cli.close()


def _running(client: Any) -> int:
    records = [key for key in client.keys("ls:{*}:job") if b"." in key]
    return sum(client.hget(key, "state") == b"running" for key in records)
