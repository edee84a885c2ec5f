from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.local.daemon import Daemon, exclusive
from tasks.local.stack import StackError, state_directory
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
SLEEPER = ["/bin/sleep", "300"]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    one = Daemon(tmp_path, "sleeper")
    yield one
    one.stop(5)


def another(state: Path, body: str) -> subprocess.Popen[bytes]:
    """A process of its own that has a Daemon named `d`."""
    code = f"from tasks.local.daemon import *; d = Daemon(Path({str(state)!r}), 'sleeper'); {body}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)


def test_what_was_never_started_does_not_run(daemon: Daemon) -> None:
    assert daemon.pid() is None
    assert not daemon.stop(1)


def test_a_started_process_is_known_by_its_own_id(daemon: Daemon) -> None:
    daemon.launch(SLEEPER)
    pid = daemon.pid()
    assert pid is not None
    command = Path(f"/proc/{pid}/cmdline")
    if command.exists():
        wait_until("it has become the command", lambda: b"sleep" in command.read_bytes())


def test_kill_9_of_the_process_is_seen(daemon: Daemon) -> None:
    daemon.launch(SLEEPER)
    pid = daemon.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert daemon.gone(5)
    daemon.launch(SLEEPER)
    assert daemon.pid() not in (None, pid)


def test_it_outlives_the_one_who_started_it(daemon: Daemon, tmp_path: Path) -> None:
    starter = another(tmp_path, "d.launch(['/bin/sleep', '300'])")
    assert starter.wait(20) == 0
    assert daemon.pid() is not None
    assert daemon.stop(5)
    assert daemon.pid() is None


def test_a_starter_killed_in_the_middle_leaves_a_process_that_is_found(
    daemon: Daemon, tmp_path: Path
) -> None:
    killed = (
        "import subprocess, os; start = subprocess.Popen;"
        "subprocess.Popen = lambda *a, **k: (start(*a, **k), os.kill(os.getpid(), 9));"
        "d.launch(['/bin/sleep', '300'])"
    )
    assert another(tmp_path, killed).wait(20) == -signal.SIGKILL
    wait_until("the orphan is known", daemon.pid)
    assert daemon.stop(5)
    daemon.launch(SLEEPER)
    assert daemon.pid() is not None


def test_what_runs_is_not_started_twice_and_keeps_its_name(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.local.daemon._MOMENT_S", 0.1)
    daemon.launch(SLEEPER)
    pid = daemon.pid()
    with pytest.raises(RuntimeError, match="running already"):
        daemon.launch(SLEEPER)
    assert daemon.pid() == pid


def test_two_who_look_at_once_see_no_process_in_each_other(daemon: Daemon) -> None:
    daemon.launch(SLEEPER)
    assert daemon.stop(5)
    seen: set[int | None] = set()

    def look() -> None:
        seen.update({daemon.pid() for _ in range(500)})

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert seen == {None}


def test_a_process_that_ignores_the_request_is_killed(daemon: Daemon) -> None:
    daemon.launch(["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
    wait_until("it is deaf", lambda: "deaf" in daemon.last_words())
    assert daemon.stop(0.3)
    assert daemon.pid() is None


def test_its_output_is_in_the_log(daemon: Daemon) -> None:
    daemon.launch(["/bin/sh", "-c", "echo one; echo two >&2"])
    assert daemon.gone(5)
    assert daemon.last_words(2) == "one two"


def test_who_must_wait_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    told, done = threading.Event(), threading.Event()

    def second() -> None:
        with exclusive(path, told.set):
            done.set()

    waiter = threading.Thread(target=second)
    with exclusive(path):
        waiter.start()
        assert told.wait(5)
        assert not done.is_set()
    waiter.join(5)
    assert done.is_set()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(StackError, match="no home directory: set LONGSTREAM_STATE_DIR"):
        state_directory()
