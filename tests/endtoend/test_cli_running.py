"""The command line while a job runs: leaving, coming back, cancelling, dying."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, Cli
from tests.harness.waiting import wait_until
from worker.store.keys import job_keys

#: About 2,000 visible tokens, in some seconds.
SLOW = ("--model", "sim:slow")
#: Ten times as many: it does not end by itself while a test runs.
ENDLESS = ("--model", "sim:long")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """One stream at a time, and a worker that is missed soon."""
    running = Cli(
        tmp_path_factory.mktemp("state"),
        tmp_path_factory.mktemp("work"),
        LONGSTREAM_SIMULATOR_SPEED="20",
        LONGSTREAM_WORKER__CONCURRENCY="1",
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
        LONGSTREAM_WORKER__DRAIN_S="0",
    )
    yield running
    running.close()


def test_text_comes_while_the_job_runs_and_a_killed_worker_costs_not_one_character(
    cli: Cli,
) -> None:
    with cli.start("ask", "Explain the tides.", *SLOW) as asking:
        assert asking.stdout is not None
        first = asking.stdout.read(100)
        cli.kill_worker()
        out, err = asking.communicate(timeout=90)
    assert asking.returncode == 0, err
    assert (first + out).decode() == cli.truth()["visible"]
    assert b"the worker has died; a new one starts" in err
    assert b"2 attempts" in err


def test_ctrl_c_leaves_the_job_running_and_prints_the_command_that_goes_on(cli: Cli) -> None:
    with cli.start("ask", "Explain the moon.", *SLOW) as asking:
        assert asking.stdout is not None
        first = asking.stdout.read(100)
        asking.send_signal(signal.SIGINT)
        rest, err = asking.communicate(timeout=30)
    assert asking.returncode == 130
    command = re.search(r"^  (longstream tail \w+ --from \d+-\d+)$", err.decode(), re.M)
    assert command is not None, err
    again = cli.run(*shlex.split(command[1])[1:])
    assert again.code == 0
    assert (first + rest).decode() + again.out == cli.truth()["visible"]


def test_ctrl_c_keeps_the_options_in_the_command(cli: Cli) -> None:
    with cli.start("ask", "Explain the sun.", *ENDLESS, "--json") as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        asking.send_signal(signal.SIGINT)
        _, err = asking.communicate(timeout=30)
    assert re.search(rb"^  longstream tail \w+ --from \d+-\d+ --json$", err, re.M), err
    job = re.findall(rb"longstream tail (\w+)", err)[0].decode()
    assert cli.run("cancel", job).code == 0


def test_a_running_job_is_cancelled_and_its_text_kept(cli: Cli) -> None:
    job = cli.submitted("ask", "Explain the wind.", *ENDLESS)
    cli.streaming(job)
    with cli.start("tail", job) as tail:
        assert "being stopped by its worker" in cli.run("cancel", job).out
        out, err = tail.communicate(timeout=30)
    assert tail.returncode == 4, err
    assert out
    assert cli.truth()["visible"].startswith(out.decode())
    assert f"job {job} cancelled" in err.decode()
    assert cli.run("cancel", job).out == f"job {job} had ended before\n"


def test_a_waiting_job_is_cancelled_at_once(cli: Cli) -> None:
    first = cli.submitted("ask", "Explain the rain.", *ENDLESS)
    cli.streaming(first)
    second = cli.submitted("ask", "Explain the snow.", *ENDLESS)
    with cli.start("tail", second) as tail:
        assert tail.stderr is not None
        assert b"waiting: next in the line" in tail.stderr.readline()
        done = cli.run("cancel", second, "--json")
        assert done.objects() == [{"job": second, "state": "cancelled"}]
        assert tail.wait(20) == 4
    assert cli.run("cancel", first).code == 0
    assert cli.run("tail", first).code == 4


def test_down_hands_back_what_runs_and_the_next_start_finishes_it(cli: Cli) -> None:
    job = cli.submitted("ask", "Explain the clouds.", *SLOW)
    cli.streaming(job)
    down = cli.run("down")
    assert down.out == "stopped: worker, simulator, valkey\n"
    assert cli.run("down").out == "nothing was running\n"
    done = cli.run("tail", job)
    assert done.code == 0, done
    assert done.out == cli.truth()["visible"]
    with cli.store() as client:
        assert client.hget(job_keys(job).record, "crashes") is None


def test_a_reader_in_a_closed_pipe_ends_while_nothing_comes(cli: Cli) -> None:
    first = cli.submitted("ask", "Explain the hills.", *ENDLESS)
    cli.streaming(first)
    second = cli.submitted("ask", "Explain the sea.", *ENDLESS)
    with cli.start("tail", second) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stderr.readline()
        tail.stdout.close()
        assert tail.wait(20) == 1
        assert b"Traceback" not in tail.stderr.read()
    assert {cli.run("cancel", job).code for job in (second, first)} == {0}


def parts(cli: Cli) -> list[int | None]:
    return [part.pid() for part in (cli.stack.valkey, cli.stack.simulator, cli.stack.worker)]


def test_commands_started_at_the_same_instant_start_one_stack(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "state", tmp_path)
    try:
        commands = [cli.start("ask", f"number {n}", "--model", "sim:plain") for n in range(3)]
        for command in commands:
            out, err = command.communicate(timeout=60)
            assert command.returncode == 0, err
            assert out
        for name in ("valkey", "simulator", "worker"):
            assert len(_processes(tmp_path / "state", name)) == 1
    finally:
        cli.close()


def _processes(state: Path, name: str) -> list[str]:
    """Who holds the lock file of a part open."""
    lock = str(state / f"{name}.lock")
    found = []
    for place in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(place.readlink()) == lock:
                found.append(place.parts[2])
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("valkey.lock", marks=pytest.mark.slow),
        "simulator.lock",
        pytest.param("worker.lock", marks=pytest.mark.slow),
    ],
)
def test_a_command_killed_while_it_starts_the_stack_blocks_nobody(
    tmp_path: Path, moment: str
) -> None:
    cli = Cli(tmp_path / "state", tmp_path)
    try:
        with cli.start("ask", "first", stderr=subprocess.DEVNULL) as first:
            wait_until("it has come so far", (tmp_path / "state" / moment).exists)
            first.kill()
        done = cli.run("ask", "second", "--model", "sim:plain")
        assert done.code == 0, done
        assert done.out == cli.truth()["visible"]
        assert cli.run("down").out == "stopped: worker, simulator, valkey\n"
    finally:
        cli.close()


def test_up_shows_the_worker_and_stops_everything_on_ctrl_c(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "state", tmp_path)
    try:
        with cli.start("up") as up:
            assert up.stdout is not None
            wait_until("the worker is there", cli.stack.worker.pid)
            assert cli.run("ask", "hello").code == 0
            up.send_signal(signal.SIGINT)
            out, err = up.communicate(timeout=60)
        assert up.returncode in (0, 130), err
        assert b"job.finished" in out
        assert b"Traceback" not in err
        assert parts(cli) == [None, None, None]
    finally:
        cli.close()


@pytest.mark.slow
def test_the_users_own_modules_are_not_taken_for_ours(tmp_path: Path) -> None:
    for name in ("tasks", "worker", "settings", "redis", "grp"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    cli = Cli(tmp_path / "state", tmp_path)
    try:
        with cli.python("-P", "-m", "tasks.cli", "ask", "hello") as asking:
            out, err = asking.communicate(timeout=60)
        assert asking.returncode == 0, err
        assert out.decode() == cli.truth()["visible"]
    finally:
        cli.close()


@pytest.mark.slow
def test_a_worker_that_can_not_start_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "celery.py").write_text("raise ImportError('this celery is broken')\n")
    path = os.pathsep.join([str(broken), str(ROOT)])
    cli = Cli(tmp_path / "state", tmp_path, PYTHONPATH=path)
    try:
        done = cli.run("ask", "hello")
        assert done.code == 1
        assert "worker ended while starting: ImportError: this celery is broken" in done.err
        assert "Traceback" not in done.err
    finally:
        cli.close()


def test_up_needs_no_configured_redis(cli: Cli) -> None:
    done = cli.run("up", env={"LONGSTREAM_REDIS_URL": "redis://127.0.0.1:1"})
    assert done.code == 2
    assert "use `longstream worker`, or unset LONGSTREAM_REDIS_URL" in done.complaint


@pytest.mark.slow
def test_new_settings_restart_the_worker_for_who_asks_and_not_for_who_reads(
    tmp_path: Path,
) -> None:
    cli = Cli(tmp_path / "state", tmp_path)
    try:
        job = cli.submitted("ask", "hello")
        cli.run("tail", job)
        before = cli.stack.worker.pid()
        changed = {"LONGSTREAM_WORKER__CONCURRENCY": "7"}
        for arguments in (["tail", job], ["jobs"], ["show", job], ["cancel", job]):
            assert cli.run(*arguments, env=changed).code == 0
            assert cli.stack.worker.pid() == before
        asked = cli.run("ask", "hello", env=changed)
        assert asked.code == 0, asked
        assert "the settings have changed" in asked.err
        assert cli.stack.worker.pid() != before
        assert cli.run("ask", "hello", env={**changed, "LONGSTREAM_MODEL": "sim:plain"}).code == 0
    finally:
        cli.close()
