"""The private stack of a simulated run: a Valkey, a worker and a simulator nobody else uses.

`factor` shortens the simulator's silences and, by the same, the worker's clocks for silence; not
those for connections, which wait for this machine and not for the provider. A stage that was left
by a run that was killed is joined by the next one.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from settings import load
from settings.errors import LongstreamError
from settings.model import SIMULATOR, Clocks, Settings
from tasks.bench.plan import Task
from tasks.local.server import why_ended
from tasks.local.simulator.ask import prompt_seed
from tasks.local.stack import Stack, StackError, bare_environment, state_directory
from worker.log.entries import Tokens
from worker.store.connections import connect
from worker.store.keys import pool_keys

_ANSWER_S = 30.0
_POLL_S = 0.02


class Stage:
    def __init__(
        self, name: str, factor: float, streams: int, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self.state = state_directory() / "bench" / f"{name}-{factor:g}"
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = self.state / "longstream.toml"
        config.write_text("")
        self._environ = {
            **bare_environment(),
            "LONGSTREAM_CONFIG": str(config),
            "LONGSTREAM_SIMULATOR_SPEED": f"{factor:g}",
            "LONGSTREAM_WORKER__CONCURRENCY": str(streams),
            "LONGSTREAM_WORKER__DRAIN_S": "0",
            **_variables(scaled(Clocks(), factor)),
        }
        self._stack = Stack(self.state, say, self._environ)
        self._lock = (self.state.parent / f"{self.state.name}.lock").open("w")
        self._held = False

    def open(self, *, worker: bool = True) -> Settings:
        """Start or join it. Raises StackError, or LongstreamError when another run uses it."""
        self.hold()
        settings = self._stack.ensure(load(self._environ), worker=worker)
        if worker:
            self._await_worker()
        return settings

    def hold(self) -> None:
        """Keep other runs out."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LongstreamError(
                "another simulated bench runs: wait for it, or set another LONGSTREAM_STATE_DIR"
            ) from None
        self._held = True

    def _await_worker(self) -> None:
        """It is ready when the line has heard of it."""
        workers, deadline = pool_keys(SIMULATOR).workers, time.monotonic() + _ANSWER_S
        with connect(self._stack.url) as client:
            while not client.zcard(workers):
                if self._stack.worker.pid() is None or time.monotonic() > deadline:
                    raise StackError(why_ended(self.state, self._stack.worker))
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Stop it and forget its jobs, unless it is another run's."""
        if self._held:
            self._stack.down()
            shutil.rmtree(self.state, ignore_errors=True)
        self._lock.close()


class Judge:
    """Knows from the simulator's ledger what a task of `model` was meant to get."""

    def __init__(self, settings: Settings, model: str) -> None:
        (key,) = settings.pool_for(model).keys
        self.base_url = key.base_url
        self._model = model

    async def billed(self) -> Tokens:
        """What the simulator wants to be paid for everything that was asked of it."""
        lines: list[dict[str, Any]] = await asyncio.to_thread(self._told, "/bill")
        return Tokens(
            input=sum(line["prompt_tokens"] for line in lines),
            output=sum(line["completion_tokens"] for line in lines),
            reasoning=sum(line["reasoning_tokens"] for line in lines),
        )

    async def truth(self, task: Task) -> str | None:
        return await asyncio.to_thread(self._asked, task.prompt)

    def _asked(self, prompt: str) -> str | None:
        seed = prompt_seed(self._model, prompt)
        texts = {entry["visible"] for entry in self._told(f"/ledger?seed={seed}")}
        return str(texts.pop()) if len(texts) == 1 else None

    def _told(self, path: str) -> Any:
        url = self.base_url.removesuffix("/v1") + path
        with urllib.request.urlopen(url, timeout=_ANSWER_S) as reply:  # noqa: S310
            return json.load(reply)


def scaled(clocks: Clocks, factor: float) -> Clocks:
    """The clocks for silence, divided."""
    return replace(
        clocks,
        read_s=clocks.read_s / factor,
        headers_s=clocks.headers_s / factor,
        bytes_idle_s=clocks.bytes_idle_s / factor,
        progress_idle_s=clocks.progress_idle_s / factor,
    )


def _variables(clocks: Clocks) -> dict[str, str]:
    names = ("read_s", "headers_s", "bytes_idle_s", "progress_idle_s")
    return {f"LONGSTREAM_CLOCKS__{name.upper()}": repr(getattr(clocks, name)) for name in names}
