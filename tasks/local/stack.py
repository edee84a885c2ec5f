"""The embedded stack: a private Valkey, a worker and, without an API key, the simulator.

The same server, scripts and code as in production; only started for you. Whoever comes first
starts it, everyone else joins, and it stays until `longstream down`, so a detached job goes on
when the terminal is closed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from settings import load
from settings.errors import LongstreamError
from settings.model import GatewaySettings, Settings
from tasks.local import server
from tasks.local.daemon import Daemon, exclusive

_START_TIMEOUT_S = 30.0
_POLL_S = 0.01
#: Beyond the drain time a worker has, before it is killed.
_GRACE_S = 10.0

#: Variables of ours and of providers begin so.
_PREFIXES = ("LONGSTREAM_", "OPENAI_", "HOLYSHEEP_")


class StackError(LongstreamError):
    """A part of the embedded stack could not be started."""


def state_directory() -> Path:
    """LONGSTREAM_STATE_DIR, else `longstream` in the user's state directory; made if missing.

    Raises StackError when it can not be used.
    """
    given = os.environ.get("LONGSTREAM_STATE_DIR")
    state = Path(given).absolute() if given else _home() / "longstream"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(state, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(None, "it is not yours to write in")
    except OSError as error:
        raise StackError(
            f"cannot use the state directory {_short(state)} ({error.strerror}): "
            "set LONGSTREAM_STATE_DIR to a directory you can write in"
        ) from error
    return state


def _home() -> Path:
    """Where the user's programs keep their state."""
    if given := os.environ.get("XDG_STATE_HOME"):
        return Path(given)
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise StackError(
            "this user has no home directory: set LONGSTREAM_STATE_DIR to a directory you can "
            "write in"
        ) from None


class Stack:
    """The stack of one state directory. All calls are safe to repeat."""

    def __init__(
        self,
        state: Path,
        say: Callable[[str], None] = lambda _: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ`: what its parts run with; None: the variables of this process."""
        self.state = state
        self._environ = os.environ if environ is None else environ
        self.url = f"unix://{server.socket_path(state)}"
        self.valkey = Daemon(state, "valkey")
        self.simulator = Daemon(state, "simulator")
        self.worker = Daemon(state, "worker")
        self.gateway = Daemon(state, "gateway")
        self._announced = state / "simulator.json"
        self._serving = state / "gateway.url"
        self._worker_settings = state / "worker.settings"
        self._say = say

    @classmethod
    def default(cls, say: Callable[[str], None] = lambda _: None) -> Stack:
        return cls(state_directory(), say)

    def ensure(self, settings: Settings, *, worker: bool = True, serving: bool = True) -> Settings:
        """Start what does not run; the settings with everything filled in that was.

        `serving`: the worker must run with these settings, and is restarted if it does not. A
        command that only reads takes the worker as it is: it may know fewer keys.
        """
        with self._alone():
            self._start_server()
            if worker and not serving and self.worker.pid() is not None:
                return load(self._joined())
            environ = self._environment(settings)
            complete = load(environ)
            if worker:
                self._start_worker(complete, environ)
        return complete

    def revive(self, settings: Settings) -> bool:
        """Start the worker again if it died. False when the stack was stopped meanwhile."""
        with self._alone():
            if self.valkey.pid() is None:
                return False
            if self.worker.pid() is None:
                environ = self._environment(settings)
                self._start_worker(load(environ), environ)
        return True

    def serve(self, settings: Settings) -> str:
        """Start the gateway if it does not run; its URL. Raises StackError with why it can not."""
        with self._alone():
            if self.gateway.pid() is None:
                self._serving.unlink(missing_ok=True)
                self.gateway.launch(
                    [*_python("tasks.cli"), "serve", "--announce-file", self._serving],
                    self._environment(settings),
                )
            self._wait(self.gateway, self._serving.exists)
        return self._serving.read_text()

    def down(self) -> list[str]:
        """Stop everything, the worker first so that it can hand back; what was running."""
        stopped = []
        with self._alone():
            within = load(self._environ).worker.drain_s + _GRACE_S
            for daemon in (self.gateway, self.worker, self.simulator, self.valkey):
                if daemon.stop(within):
                    stopped.append(daemon.name)
        return stopped

    @contextmanager
    def _alone(self) -> Iterator[None]:
        def waiting() -> None:
            self._say("waiting for another longstream command to start or stop the stack")

        with exclusive(self.state / "stack.lock", waiting):
            yield

    def _start_server(self) -> None:
        if self.valkey.pid() is None:
            self._say("starting a private Valkey")
            server.launch(self.state, self.valkey)
        self._wait(self.valkey, lambda: server.answers(self.url))

    def _environment(self, settings: Settings) -> dict[str, str]:
        """What the worker runs with: this process's variables, and where the stack is."""
        environ = {**self._environ, "LONGSTREAM_REDIS_URL": self.url}
        if not settings.pools or settings.simulated:
            given = environ.get("LONGSTREAM_SIMULATOR_URL")
            environ["LONGSTREAM_SIMULATOR_URL"] = given or self._start_simulator()
        return environ

    def _joined(self) -> dict[str, str]:
        """As `_environment`, of a stack that runs: nothing is started."""
        environ = {**self._environ, "LONGSTREAM_REDIS_URL": self.url}
        if self.simulator.pid() is not None and self._announced.exists():
            announced = json.loads(self._announced.read_text())["url"]
            environ.setdefault("LONGSTREAM_SIMULATOR_URL", str(announced))
        return environ

    def _start_simulator(self) -> str:
        if self.simulator.pid() is None:
            self._say("starting the provider simulator")
            self._announced.unlink(missing_ok=True)
            speed = self._environ.get("LONGSTREAM_SIMULATOR_SPEED", "1")
            self.simulator.launch(
                [
                    *_python("tasks.local.simulator"),
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
            self._say(
                "the settings have changed: restarting the worker once its jobs are done, "
                f"or handed back in {settings.worker.drain_s:.0f} s"
            )
            self.worker.stop(settings.worker.drain_s + _GRACE_S)
        self._worker_settings.write_text(fingerprint)
        self._worker_settings.chmod(0o600)
        self.worker.launch([*_python("tasks.cli"), "worker"], environ)

    def _wait(self, daemon: Daemon, up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not up():
            if daemon.pid() is None:
                raise StackError(server.why_ended(self.state, daemon))
            if time.monotonic() > deadline:
                raise StackError(f"{daemon.name} is silent after 30 s: see {daemon.log}")
            time.sleep(_POLL_S)


def bare_environment() -> dict[str, str]:
    """The variables of this process, without those of ours and of providers: for a stack that must
    not depend on how the user's is configured."""
    return {name: each for name, each in os.environ.items() if not name.startswith(_PREFIXES)}


def _python(module: str) -> tuple[str, ...]:
    """Run a module of ours: the working directory may hold a `tasks` of its own."""
    return (sys.executable, "-P", "-m", module)


def _short(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 200 else f"{text[:100]}...{text[-50:]}"


def _fingerprint(settings: Settings) -> str:
    """Changes when anything does that a worker reads at its start, secrets included."""
    import hashlib

    secrets = [
        key.secret.get_secret_value() for pool in settings.pools.values() for key in pool.keys
    ]
    # Read by who submits, and stored with the job, or by the gateway.
    same = replace(settings, model="-", max_file_bytes=1, gateway=GatewaySettings())
    return hashlib.sha256(repr((same.describe(), secrets)).encode()).hexdigest()


def ledger(url: str) -> list[dict[str, object]]:
    """What the simulator at this URL has sent and billed so far."""
    import urllib.request

    base = url.removesuffix("/v1")
    with urllib.request.urlopen(f"{base}/ledger", timeout=5) as reply:  # noqa: S310
        entries: list[dict[str, object]] = json.load(reply)
    return entries
