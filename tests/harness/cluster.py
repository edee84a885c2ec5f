"""Everything a deployment has, as real processes on loopback: Valkey, simulator, workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import redis

from settings import Settings, load
from tests.harness.valkey import Valkey
from tests.harness.waiting import wait_until
from worker.job.submission import Submission
from worker.job.submitting import submit
from worker.log import reader
from worker.log.cursor import START, Cursor
from worker.log.view import Cut, End, Text
from worker.messages.message import plain_message
from worker.store.connections import connect
from worker.store.keys import job_keys, pool_keys

ROOT = Path(__file__).parents[2]
#: How long a reader follows a job: one in a thread would keep the test process from ending.
READ_S = 100.0


_CONFIG = """
[[pools.simulator.keys]]
alias = "simulator"
provider = "simulator"
base_url = "{base}"
secret = "simulated"
api = "{api}"
"""


class Cluster:
    """`close` ends every process it started, and only those."""

    def __init__(
        self,
        state: Path,
        *,
        speed: str = "max",
        api: str = "chat",
        limits: Mapping[str, Any] | None = None,
        **variables: str,
    ) -> None:
        """`limits` is what the simulator enforces; see its limits.py."""
        self.state = state
        self._processes: list[subprocess.Popen[bytes]] = []
        self.valkey = Valkey(state)
        announced = state / "simulator.json"
        options: list[object] = ["--speed", speed, "--announce-file", announced]
        if limits is not None:
            (state / "limits.json").write_text(json.dumps(limits))
            options += ["--limits", state / "limits.json"]
        self.simulator = self._run("simulator", "tasks.local.simulator", *options)
        wait_until("the simulator listens", announced.exists)
        self.base = json.loads(announced.read_text())["url"]
        self.environ = {
            **{name: value for name, value in os.environ.items() if "API_KEY" not in name},
            "PYTHONPATH": str(ROOT),
            "LONGSTREAM_REDIS_URL": self.valkey.url,
            "LONGSTREAM_SIMULATOR_URL": self.base,
            **variables,
        }
        if api != "chat":
            (state / "longstream.toml").write_text(_CONFIG.format(base=self.base, api=api))
        self.settings: Settings = load(self.environ, state)
        self.client: redis.Redis = connect(self.valkey.url)

    def worker(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """A worker that has said it is ready."""
        process = self._run("worker", "tasks.cli", "worker", *arguments, env=variables)
        name = f"longstream-{process.pid}@"
        wait_until("the worker is ready", lambda: any(w.startswith(name) for w in self.alive()), 60)
        return process

    def celery(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """A worker started with Celery's own command; not ready yet."""
        return self._run("celery", "celery", "-A", "worker", "worker", *arguments, env=variables)

    def gateway(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._run("gateway", "tasks.cli", "serve", "--port", "0", *arguments)

    def cli(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._run("cli", "tasks.cli", *arguments)

    def alive(self) -> list[str]:
        found: Any = self.client.zrange(pool_keys("simulator").workers, 0, -1)
        return [name.decode() for name in found]

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        process.send_signal(number)
        process.wait(60)

    def submit(
        self, prompt: str, job_id: str, model: str = "gpt-5.5-codex", pool: str = "simulator"
    ) -> str:
        message = plain_message("tasks.generate", job_id, [prompt], {"model": model})
        job = Submission(
            job_id=job_id,
            task="tasks.generate",
            model=model,
            pool=pool,
            label="generate",
            message=message,
        )
        submit(self.client, job)
        return job_id

    def configure(self, text: str) -> None:
        """Let workers that start from now on read this as their file; {base} is the simulator."""
        (self.state / "longstream.toml").write_text(text.replace("{base}", self.base))
        self.settings = load(self.environ, self.state)

    def judged(self) -> dict[str, dict[str, int]]:
        """What the simulator saw of every account it limits."""
        with urllib.request.urlopen(self.base.removesuffix("/v1") + "/limits", timeout=10) as reply:
            seen: dict[str, dict[str, int]] = json.load(reply)
        return seen

    def ledger(self) -> list[dict[str, Any]]:
        return self._told("/ledger")

    def bill(self) -> list[dict[str, Any]]:
        """What the simulator wants to be paid for, by key and model."""
        return self._told("/bill")

    def _told(self, path: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.base.removesuffix("/v1") + path, timeout=10) as reply:
            found: list[dict[str, Any]] = json.load(reply)
        return found

    def close(self) -> None:
        self.client.close()
        for process in reversed(self._processes):
            if process.poll() is None:
                process.kill()
            process.wait()
        self.valkey.stop()

    def log(self, name: str = "worker") -> str:
        return (self.state / f"{name}.log").read_text()

    def _run(
        self, name: str, module: str, *arguments: object, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        base = getattr(self, "environ", {**os.environ, "PYTHONPATH": str(ROOT)})
        with (self.state / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                cwd=self.state,
                env={**base, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process


def read(client: redis.Redis, job_id: str, start: Cursor = START, had: str = "") -> tuple[str, End]:
    """Follow a job to its end as a clean reader that already has a text."""
    deadline = time.monotonic() + READ_S
    for item in reader.tail(client, job_id, start):
        # A reader that waits says so every few seconds.
        assert time.monotonic() < deadline, f"job {job_id} does not end: {item}"
        if isinstance(item, Cut):
            had = had[: item.offset]
        elif isinstance(item, Text):
            assert item.offset == len(had), "a gap or a repeat"
            had += item.text
        elif isinstance(item, End):
            return had, item
    raise AssertionError("the reader stopped before the end")


def streaming(cluster: Cluster, job_id: str) -> bool:
    return cluster.client.xlen(job_keys(job_id).log) > 20


def running_on(
    cluster: Cluster, job_id: str, workers: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """The worker that streams the job, once text flows."""
    wait_until("text flows", lambda: streaming(cluster, job_id))
    name: Any = cluster.client.hget(job_keys(job_id).record, "worker")
    return next(w for w in workers if name.startswith(f"longstream-{w.pid}@".encode()))


def attempts(cluster: Cluster, job_id: str) -> bytes | None:
    found: Any = cluster.client.hget(job_keys(job_id).record, "attempt")
    return found
