"""Up to a thousand readers: of one job, and of a job each, over HTTP and in one process without it.

A real server, a process that writes logs at a pace, `longstream serve`, and a process with as
many event streams; CPU is read from the gateway's own clock, an entry's age from the clock of
the machine they share. With a thousand the gateway is killed and started again, twice; and every
text is checked by the digest in the seal. Without HTTP the hub stands beside readers that have a
connection each. The readers and the writer share the cores with what is measured.

    python tests/benchmarks/gateway.py [--quick] [--json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.stream_load.contender import cpu_s, rss_bytes
from tests.harness.benchmark import Report, Target, options, table, versions
from tests.harness.gateway import Gateway
from tests.harness.valkey import Valkey

READERS = 1000
#: How many readers there are, so that it is seen how cost grows.
SIZES = (100, 300, READERS)
#: Deltas a second of one job: the model family's pace, and a tenth of it where each has a reader.
PACE, SLOW_PACE = 26.0, 2.6
#: Readers with a connection each, which is what the hub stands beside.
OWN = 200
KILLS = 2
_LOAD = "tests.benchmarks.reader_load"
_ROOT = Path(__file__).parents[2]


class Helper:
    """A process that is told what to do line by line."""

    def __init__(self, module: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{_LOAD}.{module}", *map(str, arguments)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "a helper has died"
        return line

    def asked(self, word: str) -> dict[str, Any]:
        self.tell(word)
        found: dict[str, Any] = json.loads(self.heard())
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def written(url: str, jobs: int, rate: float) -> Iterator[Helper]:
    writer = Helper("writing", url, jobs, rate)
    try:
        assert writer.heard() == "ready"
        yield writer
    finally:
        writer.close()


def over_http(
    valkey: Valkey, state: Path, readers: int, jobs: int, rate: float, seconds: float
) -> dict[str, Any]:
    """One case through the gateway."""
    environ = {**os.environ, "LONGSTREAM_REDIS_URL": valkey.url}
    environ["LONGSTREAM_SIMULATOR_URL"] = "http://127.0.0.1:9/v1"
    gateway = Gateway(state, environ)
    before = rss_bytes(gateway.process.pid)
    with written(valkey.url, jobs, rate) as writer:
        clients = Helper("clients", gateway.port, readers, jobs)
        try:
            assert clients.heard() == "connected"
            writer.tell("go")
            time.sleep(1)
            found = measured(clients, gateway.process.pid, seconds)
            memory = rss_bytes(gateway.process.pid) - before
            for _ in range(KILLS if readers == READERS else 0):
                gateway.restart()
                time.sleep(2)
            writer.tell("seal")
            ending = clients.asked("finish")
        finally:
            clients.close()
            gateway.close()
    return found | {
        "readers": readers,
        "jobs": jobs,
        "rate": rate,
        "rss_kb_per_connection": memory / readers / 1000,
        "exact_after_kills": ending["exact"],
        "connections": ending["connections"],
    }


def without_http(
    valkey: Valkey, how: str, readers: int, jobs: int, rate: float, seconds: float
) -> dict[str, Any]:
    """One case in one process, through the hub or each reader with its own connection."""
    with written(valkey.url, jobs, rate) as writer:
        readers_of = Helper("alone", valkey.url, how, readers, jobs)
        try:
            assert readers_of.heard() == "connected"
            writer.tell("go")
            time.sleep(1)
            found = measured(readers_of, readers_of.pid, seconds)
            writer.tell("seal")
            ending = readers_of.asked("finish")
        finally:
            readers_of.close()
    return found | {"how": how, "readers": readers, "jobs": jobs, "exact": ending["exact"]}


def measured(helper: Helper, pid: int, seconds: float) -> dict[str, Any]:
    helper.tell("mark")
    began, cpu = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)
    used, took = cpu_s(pid) - cpu, time.monotonic() - began
    told = helper.asked("tell")
    delivered = int(told["delivered"])
    return {
        **told,
        "delivered_per_s": delivered / took,
        "cores": used / took,
        "cpu_us_per_delivered": used / max(1, delivered) * 1e6,
    }


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every figure, and the worst count of exact texts."""
    worst = {name: min(run[name] for run in runs) for name in runs[0] if name.startswith("exact")}
    numbers = {
        name: median(run[name] for run in runs)
        for name, value in runs[0].items()
        if isinstance(value, (int, float))
    }
    return {**runs[0], **numbers, **worst}


def report(quick: bool) -> Report:
    times, seconds = (1, 4.0) if quick else (3, 8.0)
    http: list[dict[str, Any]] = []
    alone: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        valkey = Valkey(Path(folder))
        try:
            for readers in (READERS,) if quick else SIZES:
                for jobs, rate in ((1, PACE), (readers, SLOW_PACE)):
                    runs = []
                    for _ in range(times if readers == READERS else 1):
                        _say(f"{readers} streams of {jobs} jobs")
                        case = (readers, jobs, rate, seconds)
                        runs.append(over_http(valkey, Path(folder), *case))
                        _emptied(valkey)
                    http.append(middle(runs))
            for how, readers in (*(("hub", size) for size in SIZES), ("own", OWN)):
                for jobs, rate in ((1, PACE), (readers, SLOW_PACE)):
                    _say(f"{readers} readers of {jobs} jobs, {how}")
                    alone.append(without_http(valkey, how, readers, jobs, rate, seconds))
                    _emptied(valkey)
        finally:
            valkey.stop()
    return Report(
        benchmark="gateway",
        quick=quick,
        repetitions=times,
        versions=versions("starlette", "uvicorn", "httptools", "hiredis", "redis"),
        targets=targets(http),
        figures={"http": http, "alone": alone},
    )


def targets(http: list[dict[str, Any]]) -> list[Target]:
    one, many = http[-2:]
    return [
        Target("exact texts, one job", READERS, one["exact_after_kills"], "readers", "higher"),
        Target("exact texts, many jobs", READERS, many["exact_after_kills"], "readers", "higher"),
    ]


def _emptied(valkey: Valkey) -> None:
    from worker.store.connections import connect

    with connect(valkey.url) as client:
        client.flushall()


def shown(result: Report) -> str:
    head = ("", "delivered/s", "CPU us/entry", "p50 ms", "p99 ms", "KB/connection", "exact")
    rows = [
        (
            f"HTTP, {each['readers']} streams of {each['jobs']} job(s)",
            f"{each['delivered_per_s']:,.0f}",
            f"{each['cpu_us_per_delivered']:.1f}",
            f"{each['p50_ms']:.1f}",
            f"{each['p99_ms']:.1f}",
            f"{each['rss_kb_per_connection']:.0f}",
            f"{each['exact_after_kills']} of {each['readers']}",
        )
        for each in result.figures["http"]
    ]
    rows += [
        (
            f"{each['how']}, {each['readers']} readers of {each['jobs']} job(s)",
            f"{each['delivered_per_s']:,.0f}",
            f"{each['cpu_us_per_delivered']:.1f}",
            f"{each['p50_ms']:.1f}",
            f"{each['p99_ms']:.1f}",
            "",
            f"{each['exact']} of {each['readers']}",
        )
        for each in result.figures["alone"]
    ]
    return table(head, rows)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def main() -> int:
    chosen = options(__doc__ or "").parse_args()
    result = report(chosen.quick)
    if chosen.json:
        print(result.as_json())
    else:
        print(shown(result), result.heading(), result.verdicts(), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
