"""The bench as people use it: killed and begun again, limited, and refused in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import Cli
from tests.harness.simulator import Simulator
from tests.harness.waiting import wait_until

#: More than any run gets through before it is stopped.
ENDLESS = ("--samples", "5000")

CONFIG = """
model = "sim:plain"

[[pools.default.keys]]
alias = "one"
provider = "generic"
base_url = "{url}"
secret = "secret-of-the-bench-test"

[prices."sim:plain"]
input = 1.0
cached_input = 1.0
output = 10.0
"""


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    running = Simulator(speed="30")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory, simulator: Simulator) -> Iterator[Cli]:
    """A pool that is configured like any other, and happens to be a simulator."""
    work = tmp_path_factory.mktemp("work")
    (work / "longstream.toml").write_text(CONFIG.format(url=simulator.url))
    (work / "garbage.jsonl").write_text("this is no state file\n")
    # However busy the machine is, no job is taken from its worker: that would be a request more.
    running = Cli(tmp_path_factory.mktemp("state"), work, LONGSTREAM_WORKER__LEASE_S="600")
    yield running
    running.close()


def lines(path: Path, kind: str) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0].splitlines()
    return [entry for entry in map(json.loads, whole) if entry["type"] == kind]


def requests(simulator: Simulator) -> int:
    """How many a run has made. One that was given up in another test may still be making its own,
    and those are of another model."""
    return sum(entry["model"] == "sim:plain" for entry in simulator.call("/ledger").json())


def begun(cli: Cli, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The command, once three more samples have ended."""
    wanted = len(lines(path, "ended")) + 3
    running = cli.start("bench", "--state", str(path), *arguments)
    wait_until(f"{wanted} samples ended", lambda: len(lines(path, "ended")) >= wanted, 40)
    return running


def test_a_run_that_is_killed_goes_on_and_asks_for_nothing_twice(
    cli: Cli, simulator: Simulator, tmp_path: Path
) -> None:
    path, arguments = tmp_path / "run.jsonl", ("--concurrency", "4")
    before = requests(simulator)

    with begun(cli, path, *ENDLESS, *arguments) as running:
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert running.returncode == 130, err
    assert b"the same command goes on from there" in err

    with begun(cli, path, *ENDLESS, *arguments) as running:
        os.kill(running.pid, signal.SIGKILL)
        running.communicate(timeout=20)
    there = len(lines(path, "ended"))
    # Some begun and not ended, and some that no run has begun.
    every = max(entry["n"] for entry in lines(path, "begun")) + 9

    done = cli.run("bench", "--state", str(path), "--samples", str(every), *arguments, "--json")
    assert done.code == 0, done
    assert f"{there} of {every} samples are there" in done.err
    report = json.loads(done.out)
    assert (report["ours"]["samples"], report["ours"]["good"]) == (every, every)
    assert report["ours"]["tokens"]["output"] > every * 50
    ended = sorted(entry["sample"]["n"] for entry in lines(path, "ended"))
    assert ended == list(range(every))
    assert requests(simulator) - before == every


def test_a_run_that_is_complete_only_reports(
    cli: Cli, simulator: Simulator, tmp_path: Path
) -> None:
    path, page = tmp_path / "run.jsonl", tmp_path / "bench.html"
    first = cli.run("bench", "--state", str(path), "--samples", "3", "--effort", "low")
    assert first.code == 0, first
    assert "completed" in first.out
    assert "3 of 3 samples" in first.out
    before = requests(simulator)

    again = cli.run(
        *("bench", "--state", str(path), "--samples", "3", "--effort", "low"),
        *("--report", str(page)),
    )

    assert again.code == 0, again
    assert again.out == first.out
    assert requests(simulator) == before
    assert "<svg" in page.read_text("utf-8")
    assert "secret-of-the-bench-test" not in page.read_text() + path.read_text() + again.err


def test_the_spend_limit_stops_it_and_more_money_goes_on(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    arguments = ("bench", "--state", str(path), "--samples", "30", "--json")

    # A sample is reserved at 0.123 USD and takes about 0.002.
    stopped = cli.run(*arguments, "--max-cost", "0.14")

    assert stopped.code == 3, stopped
    report = json.loads(stopped.out)
    assert report["stopped"] == "the spend limit of 0.14 USD"
    assert 1 <= report["ours"]["samples"] < 30
    tokens = report["ours"]["tokens"]
    assert (tokens["input"] + 10 * tokens["output"]) / 1e6 <= 0.14
    assert cli.run(*arguments, "--max-cost", "5").code == 0


@pytest.mark.parametrize(
    ("arguments", "names", "advises", "code"),
    [
        (["--samples", "0"], "--samples", "1<=x<=1000000", 2),
        (["--concurrency", "0"], "--concurrency", "1<=x<=1000", 2),
        (["--effort", "huge"], "'huge'", "'medium'", 2),
        (["--max-cost", "much"], "'much'", "such as 2.50", 2),
        (["--max-cost", "-1"], "'-1'", "such as 2.50", 2),
        (["--max-cost", "5", "--model", "own"], "the price of own", "[prices.", 1),
        (["--report", "missing/bench.html"], "missing/bench.html", "No such file", 2),
        (["--state", "garbage.jsonl"], "garbage.jsonl, line 1", "another --state", 1),
        (["--state", "longstream.toml/x"], "longstream.toml/x", "cannot write", 1),
        (["--shorten", "0"], "--shorten", "1<=x<=100", 2),
    ],
)
def test_what_can_not_be_is_refused_in_one_line_before_anything_starts(
    cli: Cli, arguments: list[str], names: str, advises: str, code: int
) -> None:
    done = cli.run("bench", *arguments)

    assert done.code == code, done
    assert names in done.complaint
    assert advises in done.complaint


def test_a_key_that_is_refused_ends_the_run_soon(cli: Cli, tmp_path: Path) -> None:
    """Five thousand samples of a model nobody has would all fail alike."""
    state = tmp_path / "run.jsonl"

    done = cli.run("bench", "--state", str(state), "--model", "sim:no-such-model")

    assert done.code == 1, done
    assert "samples all failed" in done.err
    assert len(lines(state, "ended")) < 200


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_simulated_run_is_exact_and_leaves_nothing_behind(
    cli: Cli, simulator: Simulator, tmp_path: Path
) -> None:
    """Keys are configured, and are not used; faults are met, and cost no text."""
    before = requests(simulator)

    done = cli.run(
        *("bench", "--simulate", "--samples", "150", "--timed", "2", "--json"),
        *("--state", str(tmp_path / "run.jsonl")),
        within_s=280,
    )

    assert done.code == 0, done
    report = json.loads(done.out)
    assert (report["ours"]["exact"], report["ours"]["timeouts"]) == (150, 0)
    assert report["ours"]["hit"] >= 1
    tokens, wasted = report["ours"]["tokens"], report["ours"]["wasted"]
    assert 0 < wasted["output"] < tokens["output"]
    # What an interrupted chat completion has used is estimated from what came of it.
    assert tokens["output"] == pytest.approx(report["billed"]["output"], rel=0.01)
    if report["versions"]["openai"] is not None:
        sdk = report["sdk"]
        assert sdk["exact"] + sdk["wrong"] + sdk["timeouts"] + sdk["errors"] == 150
        assert sdk["exact"] < 150
    assert requests(simulator) == before
    stages = [path for path in (cli.stack.state / "bench").iterdir() if path.is_dir()]
    assert stages == []
