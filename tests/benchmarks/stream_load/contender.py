"""The processes of a run: one contender at a time, measured from outside, and who watches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from worker.store.keys import job_keys

ROOT = Path(__file__).parents[3]
PACKAGE = "tests.benchmarks"

OURS, TLS, FLOOR, SDK = "longstream", "longstream over TLS", "floor", "openai SDK"
_MODULES = {
    OURS: "stream_load.ours",
    TLS: "stream_load.ours",
    FLOOR: "stream_load.floor",
    SDK: "stream_load.official",
}


def job_of(stream: int, generation: int) -> str:
    """A job has a name that whoever watches it knows before it is there."""
    return f"s{stream}x{generation}"


def log_of(contender: str, stream: int, generation: int = 0) -> str:
    if contender in (OURS, TLS):
        return job_keys(job_of(stream, generation)).log
    return f"{contender}:{stream}"


class Child:
    """A process of the run that talks JSON lines; it ends when its stdin is closed."""

    def __init__(self, module: str, *args: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{PACKAGE}.{module}", *map(str, args)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self._line()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self) -> Any:
        """What it has seen since it was last asked, or altogether."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def alive(self) -> bool:
        return self._process.poll() is None

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return line


def contender(name: str, redis_path: str, provider: str, streams: int, *roots: Path) -> Child:
    """`roots`: whom to trust, where the provider speaks TLS."""
    return Child(_MODULES[name], redis_path, provider, streams, *roots)


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, to the nanosecond: its CPU clock."""
    return time.clock_gettime((~pid << 3) | 2)


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
