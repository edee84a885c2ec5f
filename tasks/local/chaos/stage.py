"""The processes of a run: all started here, in a directory of their own, and all ended here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from settings import load
from settings.errors import LongstreamError
from settings.model import Settings
from tasks.local import server
from tasks.local.chaos.plan import BACKGROUND
from tasks.local.chaos.proxy import Proxy
from tasks.local.daemon import Daemon
from tasks.local.stack import bare_environment, ledger

#: Short leases, so that a run sees many recoveries; the proportions are those of the defaults.
LEASE_S = 3.0
_ENVIRONMENT = {
    "LONGSTREAM_WORKER__LEASE_S": str(LEASE_S),
    "LONGSTREAM_WORKER__RENEW_S": "1",
    "LONGSTREAM_WORKER__HANDOFF_S": "4",
    "LONGSTREAM_WORKER__DRAIN_S": "2",
    # The run kills workers; that is no fault of the jobs they had.
    "LONGSTREAM_WORKER__MAX_CRASHES": "1000",
    "LONGSTREAM_WORKER__MAX_ATTEMPTS": "1000",
    "LONGSTREAM_CLOCKS__BYTES_IDLE_S": "15",
}
#: The longest answers take some 20 s then, so that they can end between two kills.
_SPEED = "4"
_START_S = 60.0
_STOP_S = 30.0
_POLL_S = 0.02
_SUPERVISE_S = 0.5

_CONFIG = """
[[pools.background.keys]]
alias = "background"
provider = "simulator"
base_url = "{base}"
secret = "simulated"
api = "background"

[pools.background]
models = ["{background}"]

[[pools.chat.keys]]
alias = "chat"
provider = "simulator"
base_url = "{base}"
secret = "simulated"
"""


class ChaosError(LongstreamError):
    """The run itself could not go on."""


@dataclass
class Worker:
    """One worker process, on a cable of its own."""

    number: int
    process: subprocess.Popen[bytes]
    cable: Proxy

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def named(self, name: str) -> bool:
        return name.startswith(f"longstream-{self.process.pid}@")


class Stage:
    """Use from one event loop. `close` ends everything that was started."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.socket = server.socket_path(state)
        self.url = f"unix://{self.socket}"
        self.valkey = Daemon(state, "valkey")
        self.workers: list[Worker] = []
        self.upstream: Proxy
        self.readers: Proxy
        self.settings: Settings
        self._simulator: subprocess.Popen[bytes] | None = None
        self._simulator_url = ""
        self._environ: dict[str, str] = {}
        self._started = 0
        self._closing = False
        self._store = asyncio.Lock()
        self._gone: list[Worker] = []

    async def open(self, workers: int) -> None:
        await self.start_store()
        await self._start_simulator()
        config = self.state / "longstream.toml"
        base = f"http://127.0.0.1:{await self.upstream.open()}/v1"
        config.write_text(_CONFIG.format(base=base, background=BACKGROUND))
        root = str(Path(__file__).parents[3])
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._environ = {**bare_environment(), **_ENVIRONMENT, "PYTHONPATH": paths}
        self._environ["LONGSTREAM_CONFIG"] = str(config)
        self.settings = load({**self._environ, "LONGSTREAM_REDIS_URL": self.url}, self.state)
        self.readers = Proxy(self.socket)
        await self.readers.open(self.state / "readers.sock")
        await asyncio.gather(*(self.start_worker() for _ in range(workers)))

    @property
    def readers_url(self) -> str:
        return f"unix://{self.state / 'readers.sock'}"

    async def start_store(self) -> None:
        server.launch(self.state, self.valkey)
        await self._until("Valkey answers", lambda: server.answers(self.url))

    async def restart_store(self, number: signal.Signals) -> None:
        """End it by a signal, and start it again on the same data; one at a time."""
        async with self._store:
            pid = self.valkey.pid()
            if pid is not None:
                os.kill(pid, number)
            await asyncio.to_thread(self.valkey.gone, _STOP_S)
            await self.start_store()

    async def start_worker(self) -> Worker:
        """A worker process; it is not waited for."""
        if self._closing:
            raise ChaosError("the run is over")
        self._started += 1
        number, cable = self._started, Proxy(self.socket)
        path = self.state / f"w{number}.sock"
        await cable.open(path)
        environ = self._environ | {"LONGSTREAM_REDIS_URL": f"unix://{path}"}
        arguments = ("-m", "tasks.cli", "worker", "--concurrency", "40")
        worker = Worker(number, self._run(f"worker-{number}", environ, *arguments), cable)
        self.workers.append(worker)
        return worker

    async def replace(self, worker: Worker) -> None:
        """Another worker in the place of one that is gone or going."""
        self.workers.remove(worker)
        self._gone.append(worker)
        await self.start_worker()

    async def supervise(self) -> None:
        """Start workers that ended by themselves again, as any supervisor does: one that finds no
        Redis when it starts says so and exits."""
        while True:
            await asyncio.sleep(_SUPERVISE_S)
            for worker in self.workers:
                if not worker.alive:
                    await worker.cable.close()
                    await self.replace(worker)
                    break

    async def ready(self, alive: Callable[[], list[str]]) -> None:
        """Every worker that was started has been heard of."""

        def all_heard() -> bool:
            names = alive()
            return all(any(worker.named(name) for name in names) for worker in self.workers)

        await self._until("every worker is ready", all_heard)

    def ledger(self) -> list[dict[str, object]]:
        return ledger(self._simulator_url)

    async def close(self) -> None:
        """Workers first, by SIGTERM, so that they can hand back."""
        self._closing = True
        for worker in [*self.workers, *self._gone]:
            if worker.alive:
                worker.process.send_signal(signal.SIGCONT)
                worker.cable.release()
                worker.process.terminate()
        await asyncio.gather(*(self._ended(worker) for worker in [*self.workers, *self._gone]))
        if self._simulator is not None:
            self._simulator.kill()
            self._simulator.wait()
            await self.upstream.close()
        if hasattr(self, "readers"):
            await self.readers.close()
        await asyncio.to_thread(self.valkey.stop, _STOP_S)

    async def _ended(self, worker: Worker) -> None:
        try:
            await asyncio.to_thread(worker.process.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            await asyncio.to_thread(worker.process.wait)
        await worker.cable.close()

    async def _start_simulator(self) -> None:
        announced = self.state / "simulator.json"
        arguments = ("--speed", _SPEED, "--announce-file", str(announced))
        self._simulator = self._run(
            "simulator", dict(os.environ), "-m", "tasks.local.simulator", *arguments
        )
        await self._until("the simulator listens", announced.exists)
        self._simulator_url = str(json.loads(announced.read_text())["url"])
        port = int(self._simulator_url.rsplit(":", 1)[1].removesuffix("/v1"))
        self.upstream = Proxy(port)

    def _run(self, name: str, environ: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
        with (self.state / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.state,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_S
        while not await asyncio.to_thread(condition):
            if time.monotonic() > deadline:
                raise ChaosError(f"not within {_START_S:.0f} s: {what}; see {self.state}")
            await asyncio.sleep(_POLL_S)
