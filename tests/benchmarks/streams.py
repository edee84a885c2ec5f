"""Many streams at once: what a delta costs, how soon it is in the log, what a stream takes.

The model family's pace from a provider process, a real server, and one process that moves the
deltas of all streams into logs: this worker's engine (real attempts on real leases; only Celery is
left out), the floor (raw sockets, one JSON parse, pipelined XADD), and the official SDK with one
XADD for each chunk; and this worker once more with a provider that speaks TLS. They run in turn;
CPU is read from each process's own CPU clock, while nobody watches. Then two processes watch some
of the logs for how old each visible delta is; of a soak one does all the time.

    python tests/benchmarks/streams.py [--quick] [--json] [--soak SECONDS]
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.stream_load.contender import FLOOR, OURS, SDK, TLS, rss_bytes
from tests.benchmarks.stream_load.run import Cost, running
from tests.harness.benchmark import Report, Target, installed, options, table, versions

#: Streams of the comparison.
STREAMS = 100
#: Streams for how cost grows.
SIZES = (20, 100, 400)
#: Streams of the soak, and how long one lives; as it ends, another begins.
CROWD = 1000
LIFE_S = 90.0
#: A soak is measured in pieces of this length.
PIECE_S = 20.0


def compared(turns: int, seconds: float) -> list[Cost]:
    """Every contender, in turn."""
    found: list[Cost] = []
    names = (OURS, TLS, FLOOR, *([SDK] if installed("openai") else []))
    for turn in range(turns):
        for name in names:
            _say(f"{name}, {STREAMS} streams, turn {turn + 1} of {turns}")
            with running(name, STREAMS) as run:
                found.append(run.cost(seconds))
    return found


def grown(seconds: float) -> list[dict[str, Any]]:
    """This worker and the floor at each size: what a delta costs, and how old it is."""
    found: list[dict[str, Any]] = []
    for streams in SIZES:
        _say(f"{streams} streams")
        with running(OURS, streams) as run:
            cost, ages = run.cost(seconds), run.ages(seconds, "log", "reader")
        with running(FLOOR, streams) as run:
            floor = run.cost(seconds)
        found.append(shown(cost) | {"ages": ages, "floor_cpu_us": floor.cpu_us})
    return found


def soaked(seconds: float) -> dict[str, Any]:
    """A thousand streams, each ending and followed by another, for a long time."""
    pieces: list[dict[str, Any]] = []
    with running(OURS, CROWD, life_s=LIFE_S) as run, run.watched("log") as ages:
        began = time.monotonic()
        while (at := time.monotonic() - began) < seconds:
            _say(f"{CROWD} streams, {at:.0f} s of {seconds:.0f}")
            cost = run.cost(PIECE_S)
            pieces.append({"at_s": at} | shown(cost) | {"ages": ages()["log"]})
        counts, rss = run.counts(), rss_bytes(run.child.pid)
    warm = [piece["rss_mb"] for piece in pieces if piece["at_s"] >= LIFE_S * 1.5]
    return {
        "seconds": seconds,
        "streams": CROWD,
        "life_s": LIFE_S,
        "ended": counts["ended"],
        "pieces": pieces,
        "rss_mb": rss / 1e6,
        "rss_warm_mb": warm,
        "log_p99_ms": median(piece["ages"]["p99_ms"] for piece in pieces),
        "log_p99_worst_ms": max(piece["ages"]["p99_ms"] for piece in pieces),
        "wrong": sum(piece["ages"]["wrong"] for piece in pieces),
    }


def targets(costs: list[Cost], sizes: list[dict[str, Any]]) -> list[Target]:
    ours, floor, sdk = (_cpu(costs, name) for name in (OURS, FLOOR, SDK))
    assert ours is not None
    assert floor is not None
    of_100 = next(one for one in sizes if one["streams"] == STREAMS)
    reader = of_100["ages"]["reader"]
    small, large = sizes[0], sizes[-1]
    kb = (large["rss_mb"] - small["rss_mb"]) * 1000 / (large["streams"] - small["streams"])
    return [
        Target("CPU a visible delta", 2.0, ours / floor, "x the floor", "lower"),
        Target("CPU a visible delta", 1 / 8, sdk and ours / sdk, "of the SDK's", "lower"),
        Target("memory of one more stream", 100, kb, "KB", "lower"),
        Target("wire to reader, p50, 100 streams", 2, reader["p50_ms"], "ms", "lower"),
        Target("wire to reader, p99, 100 streams", 20, reader["p99_ms"], "ms", "lower"),
    ]


def soak_targets(soak: dict[str, Any]) -> list[Target]:
    warm = soak["rss_warm_mb"]
    half = len(warm) // 2
    growth = median(warm[half:]) / median(warm[:half]) - 1 if half else None
    return [
        Target("wire to log, p99, 1,000 streams", 50, soak["log_p99_ms"], "ms", "lower"),
        Target("memory, later over earlier", 0.02, growth, "grown", "lower"),
        Target("deltas lost, doubled or out of order", 0, soak["wrong"], "deltas", "lower"),
    ]


def shown(cost: Cost) -> dict[str, Any]:
    return asdict(cost) | {"streams_per_core": cost.streams_per_core}


def page(costs: list[Cost], sizes: list[dict[str, Any]], soak: dict[str, Any] | None) -> str:
    """The report for people."""
    names = [name for name in (OURS, TLS, FLOOR, SDK) if _cpu(costs, name) is not None]
    head = (f"{STREAMS} streams", *names)
    fields = {
        "CPU a visible delta, us": "cpu_us",
        "streams a core": "streams_per_core",
        "CPU of the store, us": "store_cpu_us",
        "commands to the store": "store_commands",
        "bytes to the store": "store_bytes_in",
        "bytes from the store": "store_bytes_out",
    }
    rows = [
        (what, *(f"{_median(costs, name, field):,.1f}" for name in names))
        for what, field in fields.items()
    ]
    parts = [table(head, rows)]
    parts += [table(("streams", "CPU, us", "floor, us", "wire to log p50/p95/p99, ms",
                     "wire to reader, ms", "MB"), list(map(_size_row, sizes)))]  # fmt: skip
    if soak is not None:
        last = soak["pieces"][-1]
        parts.append(
            f"{CROWD} streams for {soak['seconds']:.0f} s, {soak['ended']} ended: "
            f"{last['cpu_us']:.1f} us a delta, wire to log p99 {soak['log_p99_ms']:.1f} ms "
            f"(worst {soak['log_p99_worst_ms']:.1f}), {last['rss_mb']:.0f} MB"
        )
    return "\n\n".join(parts)


def main() -> int:
    parser = options(__doc__ or "")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="only the soak, so long")
    chosen = parser.parse_args()
    turns, seconds = (1, 5.0) if chosen.quick else (3, 10.0)
    report = Report(
        benchmark="streams",
        quick=chosen.quick,
        repetitions=turns,
        versions=versions("openai", "httpx", "redis", "msgspec", "hiredis", "uvloop"),
    )
    costs: list[Cost] = []
    sizes: list[dict[str, Any]] = []
    soak = None
    if chosen.soak is None:
        costs, sizes = compared(turns, seconds), grown(seconds)
        report.targets = targets(costs, sizes)
        report.figures = {"compared": [shown(cost) for cost in costs], "sizes": sizes}
    else:
        soak = soaked(chosen.soak)
        report.targets, report.figures = soak_targets(soak), {"soak": soak}
    if chosen.json:
        print(report.as_json())
    else:
        print(page(costs, sizes, soak), report.heading(), report.verdicts(), sep="\n\n")
    return 0


def _cpu(costs: list[Cost], name: str) -> float | None:
    return _median(costs, name, "cpu_us")


def _median(costs: list[Cost], name: str, field: str) -> float | None:
    found = [getattr(cost, field) for cost in costs if cost.contender == name]
    return median(found) if found else None


def _size_row(size: dict[str, Any]) -> tuple[str, ...]:
    ages = [
        " / ".join(f"{size['ages'][mode][p]:.1f}" for p in ("p50_ms", "p95_ms", "p99_ms"))
        for mode in ("log", "reader")
    ]
    cpu, floor = size["cpu_us"], size["floor_cpu_us"]
    return str(size["streams"]), f"{cpu:.1f}", f"{floor:.1f}", *ages, f"{size['rss_mb']:.0f}"


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
