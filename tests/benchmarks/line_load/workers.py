"""Worker processes without Celery: the real feeder, and a stand-in for the streams it starts.

A job is over after a drawn time, with a drawn usage, and is settled with it. Everything a worker
did is written to a file of JSON lines: when the server granted what to whom, and when it ended.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import redis

from settings.model import Account, Key, Pool, Settings, WorkerSettings
from settings.secret import Secret
from worker.admission import line
from worker.admission.line import Lease, Spent
from worker.log.entries import Tokens
from worker.steps.feeder import Feeder
from worker.store.connections import connect
from worker.store.keys import pool_keys

POOL = "p"
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the processes run with. `hold_s` and `used` (a share of the prompt's estimate) are drawn
    evenly between their two ends; `hold_s` None: jobs never end."""

    url: str
    accounts: dict[str, dict[str, Any]]
    concurrency: int = 1000
    hold_s: tuple[float, float] | None = None
    used: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Grant:
    """One lease: server time in s, tokens used, and when it ended (the same clock)."""

    job: str
    key: str
    at: float
    tokens: int
    reserved: int
    ended: float | None


def settings_of(load: Load) -> Settings:
    keys = tuple(
        Key(
            alias=name,
            provider="generic",
            base_url="http://127.0.0.1:1/v1",
            secret=Secret("s"),
            account=name,
        )
        for name in load.accounts
    )
    accounts = {name: Account(name=name, **limits) for name, limits in load.accounts.items()}
    return Settings(
        redis_url=load.url,
        pools={POOL: Pool(name=POOL, keys=keys)},
        accounts=accounts,
        worker=WorkerSettings(concurrency=load.concurrency, handoff_s=3600.0),
    )


class Processes:
    """So many workers; `stop` ends them and gives what they did."""

    def __init__(self, folder: Path, load: Load, count: int) -> None:
        self._folder = folder
        (folder / "load.json").write_bytes(msgspec.json.encode(load))
        command = [sys.executable, "-m", "tests.benchmarks.line_load.workers", str(folder)]
        self._running = [
            subprocess.Popen([*command, f"w{number}"], cwd=ROOT) for number in range(count)
        ]

    def stop(self) -> list[Grant]:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(30)
        lines = (path.read_text().splitlines() for path in self._folder.glob("*.jsonl"))
        return [Grant(**json.loads(text)) for found in lines for text in found]


class Streams:
    """Ends jobs when their time has come, in a thread of its own."""

    def __init__(self, load: Load, path: Path) -> None:
        self._load = load
        self._file = path.open("w")
        self._due: list[tuple[float, int, Lease, Grant]] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def begin(self, client: redis.Redis, lease: Lease) -> None:
        stored: Any = client.hget(pool_keys(POOL).held, lease.job_id)
        held = json.loads(stored)
        ticket: Any = json.loads(client.hget(pool_keys(POOL).tickets, lease.job_id) or b"")
        line.run(client, line.start(lease, held["worker"], "r", lease_ms=3_600_000))
        used = int(ticket["prompt"] * random.uniform(*self._load.used)) + 1
        at = held["at"] / 1000
        grant = Grant(lease.job_id, lease.key, at, used, held["tokens"], None)
        hold_s = random.uniform(*self._load.hold_s) if self._load.hold_s else float("inf")
        with self._changed:
            heapq.heappush(self._due, (at + hold_s, lease.number, lease, grant))
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        for _, _, _, grant in self._due:
            self._write(grant)
        self._file.close()

    def _main(self) -> None:
        with connect(self._load.url) as client:
            while (ended := self._next()) is not None:
                at, lease, grant = ended
                self._write(Grant(grant.job, grant.key, grant.at, grant.tokens, grant.reserved, at))
                used = Tokens(input=grant.tokens - 1, output=1)
                spent = Spent(used, "answered")
                line.run(client, line.settle(lease, back=False, spent=spent))

    def _next(self) -> tuple[float, Lease, Grant] | None:
        with self._changed:
            while not self._stopped:
                wait_s = self._due[0][0] - time.time() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    _, _, lease, grant = heapq.heappop(self._due)
                    return time.time(), lease, grant
                self._changed.wait(None if wait_s == float("inf") else wait_s)
        return None

    def _write(self, grant: Grant) -> None:
        fields = {name: getattr(grant, name) for name in Grant.__slots__}
        self._file.write(json.dumps(fields) + "\n")


def main(folder: Path, name: str) -> None:
    load = msgspec.json.decode((folder / "load.json").read_bytes(), type=Load)
    streams = Streams(load, folder / f"{name}.jsonl")
    feeder = Feeder(
        settings_of(load),
        f"{name}@{os.getpid()}",
        publish=streams.begin,
        cancel=lambda _: None,
        close=lambda _: None,
        discard=lambda _: None,
        revive=lambda _: 0,
    )
    feeder.start()
    signal.sigwait({signal.SIGTERM})
    feeder.close()
    streams.stop()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    main(Path(sys.argv[1]), sys.argv[2])
