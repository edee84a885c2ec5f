"""The command line as its users run it: real processes, a state directory of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from tasks.local.stack import Stack, ledger
from tests.harness.waiting import wait_until
from worker.store.connections import connect
from worker.store.keys import job_keys

ROOT = Path(__file__).parents[2]
CALL_S = 60.0


class Cli:
    """Commands of one state directory, run in `work`. `close` stops what they started."""

    def __init__(self, state: Path, work: Path, **variables: str) -> None:
        self.work = work
        self.stack = Stack(state)
        ours = ("LONGSTREAM_", "OPENAI_", "HOLYSHEEP_")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "PYTHONPATH": str(ROOT),
            "LONGSTREAM_STATE_DIR": str(state),
            "LONGSTREAM_SIMULATOR_SPEED": "max",
            **variables,
        }

    def start(
        self, *arguments: str, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """A command that runs on; its output in pipes unless `options` say otherwise."""
        return self.python("-m", "tasks.cli", *arguments, env=env, **options)

    def python(
        self, *arguments: str, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """As `start`, for any program of Python."""
        given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # Unbuffered: what is not read yet must still be there for `communicate`.
        given |= {"stdin": subprocess.DEVNULL, "cwd": self.work, "bufsize": 0} | options
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**self.environ, **(env or {})},
            **given,
        )

    def run(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        within_s: float = CALL_S,
    ) -> Done:
        """A command run to its end."""
        with self.start(*arguments, env=env, stdin=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin, within_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Done(arguments, process.returncode, out, err)

    def submitted(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        """Submit with --detach; the job's id."""
        done = self.run(*arguments, "--detach", env=env)
        assert done.code == 0, done
        return done.out.strip()

    def truth(self) -> dict[str, Any]:
        """The simulator's entry of the latest request."""
        entry: dict[str, Any] = ledger(self.truth_url())[-1]
        return entry

    def truth_url(self) -> str:
        announced = json.loads((self.stack.state / "simulator.json").read_text())
        return str(announced["url"])

    def store(self) -> redis.Redis:
        return connect(self.stack.url)

    def streaming(self, job_id: str) -> None:
        """Wait until text of the job flows."""
        with self.store() as client:
            wait_until("text flows", lambda: client.xlen(job_keys(job_id).log) > 10, 30)

    def kill_worker(self) -> None:
        pid = self.stack.worker.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert self.stack.worker.gone(10)

    def close(self) -> None:
        stack = self.stack
        for daemon in (stack.gateway, stack.worker, stack.simulator, stack.valkey):
            daemon.stop(2)


class Done:
    """How a command ended."""

    def __init__(self, arguments: Sequence[str], code: int, out: bytes, err: bytes) -> None:
        self.arguments = arguments
        self.code = code
        self.raw = out
        self.out = out.decode(errors="surrogateescape")
        self.err = err.decode()

    def __repr__(self) -> str:
        return f"{self.arguments} ended with {self.code}\nstdout: {self.out}\nstderr: {self.err}"

    @property
    def complaint(self) -> str:
        """The one line on stderr; AssertionError if it is not one."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert self.out == "", self
        return lines[0]

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]
