"""How fast: documents a second over whole bodies, and the delay of a delta behind a burst.

The figures are CPU time of this process, so that neighbours on a shared machine do not count.
Every run is checked: the number of documents and the exact visible text, or it is no figure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.streaming.bursts import READS, SHAPES, Body, body, burst
from tests.benchmarks.streaming.contenders import DECODE, FRAMING, Contender
from tests.harness.benchmark import Turn, in_turn

BURSTS = 3
QUICK_BURSTS = 1
#: What the delays are measured in, where other cells have the size of a read.
ONE_READ = "one read"


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: `value` of a contender on one shape of events, in reads of one size."""

    shape: str
    reads: str
    contender: str
    value: float


def decoding(times: int, bursts: int) -> list[Cell]:
    """Decode, JSON and pick: documents a second."""
    return _rates(DECODE, times, bursts)


def framing(times: int, bursts: int) -> list[Cell]:
    """Framing alone: events a second."""
    return _rates(FRAMING, times, bursts)


def delays(times: int) -> list[Cell]:
    """Seconds until a delta is handed over that stands behind a burst in the same read."""
    cells: list[Cell] = []
    for shape in SHAPES:
        data, events = burst(shape, "Found it.")
        whole = Body(data, events, "Found it.")
        turns = {one.name: _turn(one, whole, [data], first=True) for one in DECODE if one.there}
        taken = in_turn(turns, times)
        cells += [Cell(shape, ONE_READ, name, seconds) for name, seconds in taken.items()]
    return cells


def value(cells: Sequence[Cell], contender: str, shape: str, reads: str) -> float | None:
    """One figure, or None when it was not measured."""
    wanted = (contender, shape, reads)
    found = (cell.value for cell in cells if (cell.contender, cell.shape, cell.reads) == wanted)
    return next(found, None)


def _rates(contenders: Sequence[Contender], times: int, bursts: int) -> list[Cell]:
    cells: list[Cell] = []
    for shape in SHAPES:
        whole = body(shape, bursts)
        for label, size in READS.items():
            reads = whole.reads(size)
            turns = {
                one.name: _turn(one, whole, reads, text=contenders is DECODE)
                for one in contenders
                if one.there
            }
            taken = in_turn(turns, times)
            cells += [Cell(shape, label, name, whole.events / s) for name, s in taken.items()]
    return cells


def _turn(
    contender: Contender, whole: Body, reads: list[bytes], *, first: bool = False, text: bool = True
) -> Turn:
    expected = (whole.events, whole.text if text else "")

    def turn() -> float:
        run = contender.start(reads)
        began = time.process_time()
        picked = run(first)
        taken_s = time.process_time() - began
        if picked != expected:
            raise AssertionError(f"{contender.name} read {picked}, not {expected}")
        return taken_s

    return turn
