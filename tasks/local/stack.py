"""The embedded stack: a private Valkey, a worker and, without an API key, the simulator.

The same server, scripts and code as in production; only started for you. Whoever comes first
starts it, everyone else joins, and it stays until `longstream down`, so a detached job goes on
when the terminal is closed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from settings import load
from settings.errors import LongstreamError
from settings.model import Settings
from tasks.local import server
from tasks.local.daemon import Daemon, exclusive

_START_TIMEOUT_S = 30.0
_POLL_S = 0.02
#: Beyond the drain time a worker has, before it is killed.
_GRACE_S = 10.0


class StackError(LongstreamError):
    """A part of the embedded stack could not be started."""


def state_directory() -> Path:
    """LONGSTREAM_STATE_DIR, else `longstream` in the user's state directory; made if missing."""
    given = os.environ.get("LONGSTREAM_STATE_DIR")
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    state = Path(given).absolute() if given else home / "longstream"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return state


class Stack:
    """The stack of one state directory. All calls are safe to repeat."""

    def __init__(self, state: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self.state = state
        self.url = f"unix://{server.socket_path(state)}"
        self.valkey = Daemon(state, "valkey")
        self.simulator = Daemon(state, "simulator")
        self.worker = Daemon(state, "worker")
        self._announced = state / "simulator.json"
        self._worker_settings = state / "worker.settings"
        self._say = say

    @classmethod
    def default(cls, say: Callable[[str], None] = lambda _: None) -> Stack:
        return cls(state_directory(), say)

    def ensure(self, settings: Settings, *, worker: bool = True) -> Settings:
        """Start what does not run; the settings with everything filled in that was."""
        with exclusive(self.state / "stack.lock"):
            self._start_server()
            environ = self._environment(settings)
            complete = load(environ)
            if worker:
                self._start_worker(complete, environ)
        return complete

    def down(self) -> list[str]:
        """Stop everything, the worker first so that it can hand back; what was running."""
        stopped = []
        with exclusive(self.state / "stack.lock"):
            within = load().worker.drain_s + _GRACE_S
            for daemon in (self.worker, self.simulator, self.valkey):
                if daemon.stop(within):
                    stopped.append(daemon.name)
        return stopped

    def _start_server(self) -> None:
        if self.valkey.pid() is None:
            self._say("starting a private Valkey")
            server.launch(self.state, self.valkey)
        self._wait(self.valkey, lambda: server.answers(self.url))

    def _environment(self, settings: Settings) -> dict[str, str]:
        """What the worker runs with: this process's variables, and where the stack is."""
        environ = {**os.environ, "LONGSTREAM_REDIS_URL": self.url}
        if not settings.pools or settings.simulated:
            environ["LONGSTREAM_SIMULATOR_URL"] = self._start_simulator()
        return environ

    def _start_simulator(self) -> str:
        if self.simulator.pid() is None:
            self._say("no API key is configured: starting the simulator, answers are simulated")
            self._announced.unlink(missing_ok=True)
            speed = os.environ.get("LONGSTREAM_SIMULATOR_SPEED", "1")
            self.simulator.launch(
                [
                    *(sys.executable, "-m", "tasks.local.simulator"),
                    *("--announce-file", self._announced, "--speed", speed),
                ]
            )
        self._wait(self.simulator, self._announced.exists)
        return str(json.loads(self._announced.read_text())["url"])

    def _start_worker(self, settings: Settings, environ: dict[str, str]) -> None:
        fingerprint = _fingerprint(settings)
        if self.worker.pid() is not None:
            if self._worker_settings.read_text() == fingerprint:
                return
            self._say("the settings have changed: restarting the worker")
            self.worker.stop(settings.worker.drain_s + _GRACE_S)
        self._worker_settings.write_text(fingerprint)
        self._worker_settings.chmod(0o600)
        self.worker.launch([sys.executable, "-m", "tasks.cli", "worker"], environ)

    def _wait(self, daemon: Daemon, up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not up():
            if daemon.pid() is None:
                raise StackError(f"{daemon.name} ended while starting: see {daemon.log}")
            if time.monotonic() > deadline:
                raise StackError(f"{daemon.name} is silent after 30 s: see {daemon.log}")
            time.sleep(_POLL_S)


def _fingerprint(settings: Settings) -> str:
    """Changes when anything does that a worker reads at its start, secrets included."""
    secrets = [
        key.secret.get_secret_value() for pool in settings.pools.values() for key in pool.keys
    ]
    return hashlib.sha256(repr((settings.describe(), secrets)).encode()).hexdigest()


def ledger(url: str) -> list[dict[str, object]]:
    """What the simulator at this URL has sent and billed so far."""
    base = url.removesuffix("/v1")
    with urllib.request.urlopen(f"{base}/ledger", timeout=5) as reply:  # noqa: S310
        entries: list[dict[str, object]] = json.load(reply)
    return entries
