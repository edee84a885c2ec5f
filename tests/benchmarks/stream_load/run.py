"""One run: a provider, a store, a contender; what a stretch of time costs, and how late it is."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from tests.benchmarks.stream_load.contender import (
    OURS,
    SDK,
    TLS,
    Child,
    contender,
    cpu_s,
    rss_bytes,
)
from tests.harness.valkey import Valkey
from worker.store.connections import connect

#: How many streams are watched; more would load the store with watching.
WATCHED = 20
#: As compose.yaml has it: of a store that is to carry so much.
REWRITE_SIZE = "512mb"
RAMP_S = 3.0
SETTLE_S = 2.0
#: Streams a second that begin while a run is ramped up.
BEGIN_PER_S = 150

#: How many deltas were seen, how old, and what was wrong with them.
Ages = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a stretch of time with nobody watching, for each visible delta."""

    contender: str
    streams: int
    seconds: float
    deltas_per_s: float
    cpu_us: float
    #: CPU of the worker process, in cores.
    cores: float
    store_cpu_us: float
    #: Commands from outside; what a script does inside counts to the script.
    store_commands: float
    store_bytes_in: float
    store_bytes_out: float
    rss_mb: float
    #: How often the provider was not read from, and how late it was itself.
    held_up: int
    provider_late_ms: float
    open_streams: int

    @property
    def streams_per_core(self) -> float:
        return self.streams / self.cores


class Run:
    """A contender at work. Use as made by `running`."""

    def __init__(self, name: str, streams: int, valkey: Valkey, provider: Child, child: Child):
        self.name, self.streams = name, streams
        self._valkey, self._provider, self.child = valkey, provider, child
        self._store = connect(valkey.url)
        self._store.config_set("auto-aof-rewrite-min-size", REWRITE_SIZE)
        pid = valkey.daemon.pid()
        assert pid is not None
        self._store_pid = pid

    def cost(self, seconds: float) -> Cost:
        before, began = self._figures(), time.monotonic()
        time.sleep(seconds)
        after, took_s = self._figures(), time.monotonic() - began
        took = {name: after[name] - before[name] for name in after}
        # The SDK may fall behind, and what never reached the store took none of its time.
        deltas = took["commands"] if self.name == SDK else took["visible"]
        return Cost(
            contender=self.name,
            streams=self.streams,
            seconds=took_s,
            deltas_per_s=deltas / took_s,
            cpu_us=took["cpu"] / deltas * 1e6,
            cores=took["cpu"] / took_s,
            store_cpu_us=took["store_cpu"] / deltas * 1e6,
            store_commands=took["commands"] / deltas,
            store_bytes_in=took["bytes_in"] / deltas,
            store_bytes_out=took["bytes_out"] / deltas,
            rss_mb=rss_bytes(self.child.pid) / 1e6,
            held_up=int(took["held_up"]),
            provider_late_ms=after["late_s"] * 1000,
            open_streams=int(after["open"]),
        )

    def ages(self, seconds: float, *modes: str) -> dict[str, Ages]:
        """How old deltas were when they were seen, by who saw them."""
        with self.watched(*modes) as ages:
            time.sleep(seconds)
            return ages()

    @contextmanager
    def watched(self, *modes: str) -> Iterator[Callable[[], dict[str, Ages]]]:
        """What is yielded tells the ages of what was seen since it was last asked."""
        path = self._valkey.url.removeprefix("unix://")
        step = max(1, self.streams // WATCHED)
        streams = range(0, self.streams, step)
        with ExitStack() as stack:
            watching = {
                mode: Child("stream_load.observer", mode, self.name, path, *streams)
                for mode in modes
            }
            for each in watching.values():
                stack.callback(each.stop)

            def ages() -> dict[str, Ages]:
                return {mode: each.ask() for mode, each in watching.items()}

            # While they began, everybody else had less of the machine.
            time.sleep(SETTLE_S)
            ages()
            yield ages

    def counts(self) -> dict[str, Any]:
        told: dict[str, Any] = self._provider.ask()
        return told

    def close(self) -> None:
        self._store.close()

    def _figures(self) -> dict[str, float]:
        info: Any = self._store.info("stats")
        return self.counts() | {
            "cpu": cpu_s(self.child.pid),
            "store_cpu": cpu_s(self._store_pid),
            "commands": sum(
                one["calls"]
                for name, one in self._commands().items()
                if name not in ("cmdstat_info", *_INSIDE.get(self.name, ()))
            ),
            "bytes_in": info["total_net_input_bytes"],
            "bytes_out": info["total_net_output_bytes"],
        }

    def _commands(self) -> dict[str, Any]:
        found: Any = self._store.info("commandstats")
        return dict(found)


#: What scripts call; the server counts it like commands from outside.
_CALLED = tuple(
    f"cmdstat_{name}" for name in ("xadd", "xrevrange", "xrange", "hget", "hset", "time")
)
_INSIDE = {OURS: _CALLED, TLS: _CALLED}


@contextmanager
def running(name: str, streams: int, *, life_s: float = 0.0) -> Iterator[Run]:
    """A fresh store, a fresh provider, and a contender that has all its streams."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        valkey = Valkey(Path(folder))
        stack.callback(valkey.stop)
        identity = _identity(Path(folder)) if name == TLS else ()
        provider = Child("stream_load.provider", life_s, *identity[:1])
        stack.callback(provider.stop)
        path = valkey.url.removeprefix("unix://")
        child = contender(name, path, _url_of(provider), streams, *identity[1:])
        stack.callback(child.stop)
        run = Run(name, streams, valkey, provider, child)
        stack.callback(run.close)
        deadline = time.monotonic() + 30 + streams / BEGIN_PER_S
        while run.counts()["open"] < streams:
            if time.monotonic() > deadline or not child.alive():
                raise RuntimeError(f"{name} did not get {streams} streams open")
            time.sleep(0.1)
        time.sleep(RAMP_S)
        yield run


def _identity(folder: Path) -> tuple[Path, Path]:
    """A certificate with its key, and whom to trust for it."""
    authority = trustme.CA()
    identity, root = folder / "identity.pem", folder / "root.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(identity)
    authority.cert_pem.write_to_path(root)
    return identity, root


def _url_of(provider: Child) -> str:
    url: str = json.loads(provider.first)["url"]
    return url
