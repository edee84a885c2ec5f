"""What watching costs a delta: the witness, the timing of its way into the log, and the counting of
batches, beside the same steps without them.

The worst case for watching: every read brings one delta, and every delta is a batch of its own.

    python tests/benchmarks/seeing.py [--quick] [--json] [--delta-us 88]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.harness.benchmark import (
    Report,
    Target,
    in_turn,
    options,
    repetitions,
    table,
    versions,
)
from worker.admission.line import Lease
from worker.seeing.meters import SAMPLED, Meters
from worker.seeing.witness import Witness

DELTAS = 10_000
#: CPU of a delta in the floor program of streams.py, as it was measured; ours takes more.
FLOOR_US = 88.0
SHARE = 0.01


class Pump:
    """What the pump and the writer do for a witness, in their words, and nothing else."""

    def __init__(self, witness: Witness) -> None:
        self._seen = witness
        self._unseen = 0
        self._timed = 0.0

    def watched(self, visible: bool) -> None:
        self._unseen -= visible
        if self._unseen < 0 or not visible:
            self._unseen = self._seen.came()
            self._timed = time.monotonic()
        since, self._timed = self._timed, 0.0
        if since:
            self._seen.stored(time.monotonic() - since)

    def unwatched(self, visible: bool) -> None:
        pass


def reads(step: Callable[[bool], None]) -> Callable[[], float]:
    """Deltas on their way from the wire to the log."""

    def turn() -> float:
        began = time.process_time()
        for _ in range(DELTAS):
            step(True)
        return time.process_time() - began

    return turn


def batches(meters: Meters | None) -> Callable[[], float]:
    """Batches of the group commit, each of one call."""

    def turn() -> float:
        began = time.process_time()
        if meters is None:
            for _ in range(DELTAS):
                pass
            return time.process_time() - began
        sizes, times = meters.batch.of(), meters.exchange.of()
        left, sent = 0, 0.0
        for _ in range(DELTAS):
            left -= 1
            if left < 0:
                sizes.observe(1)
            if left < 0:
                left = SAMPLED - 1
                times.observe(time.monotonic() - sent)
        return time.process_time() - began

    return turn


def witness() -> Witness:
    lease = Lease(job_id="a1b2c3", pool="p", number=1, key="k")
    return Witness(lease, meters=Meters())


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument(
        "--delta-us", type=float, default=FLOOR_US, help="CPU of a delta's whole way, in us"
    )
    given = parser.parse_args()
    times = repetitions(quick=given.quick)
    seconds = in_turn(
        {
            "read, watched": reads(Pump(witness()).watched),
            "read, not watched": reads(Pump(witness()).unwatched),
            "batch, watched": batches(Meters()),
            "batch, not watched": batches(None),
        },
        times,
    )
    each_ns = {name: 1e9 * taken / DELTAS for name, taken in seconds.items()}
    read_ns = each_ns["read, watched"] - each_ns["read, not watched"]
    batch_ns = each_ns["batch, watched"] - each_ns["batch, not watched"]
    share = (read_ns + batch_ns) / 1000 / given.delta_us
    report = Report(
        "seeing",
        given.quick,
        times,
        versions(),
        targets=[
            Target("share of a delta's CPU", 100 * SHARE, 100 * share, "%", "lower"),
        ],
        figures={
            "ns": {name: round(ns, 1) for name, ns in each_ns.items()},
            "read_ns": round(read_ns, 1),
            "batch_ns": round(batch_ns, 1),
            "delta_us": given.delta_us,
        },
    )
    if given.json:
        print(report.as_json())
        return
    print(report.heading())
    print()
    rows = [[name, f"{ns:.1f}"] for name, ns in each_ns.items()]
    rows += [["watching a read", f"{read_ns:.1f}"], ["watching a batch", f"{batch_ns:.1f}"]]
    print(table(["step", "ns"], rows))
    print()
    print(report.verdicts())


if __name__ == "__main__":
    main()
