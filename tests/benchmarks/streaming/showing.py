"""The figures of speed, for people: events a second, and the delay behind a burst."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.benchmarks.streaming.bursts import READS, SHAPES
from tests.benchmarks.streaming.contenders import CLIENT, DECODE, FRAMING, Contender
from tests.benchmarks.streaming.speed import ONE_READ, Cell, value
from tests.harness.benchmark import table

MISSING = "missing"


def rates(cells: Sequence[Cell], contenders: Sequence[Contender], shape: str) -> str:
    """Thousands of events a second, and in brackets how many times fewer than ours."""

    def shown(found: float, ours: float) -> str:
        return f"{found / 1000:,.0f} k ({ours / found:.1f}x)"

    rows = [
        (one.name, *(_cell(cells, one, shape, reads, shown) for reads in READS))
        for one in contenders
    ]
    return table((f"{shape} events", *READS), rows)


def delays(cells: Sequence[Cell]) -> str:
    """Milliseconds, and in brackets how many times ours."""

    def shown(found: float, ours: float) -> str:
        return f"{found * 1000:.2f} ms ({found / ours:.1f}x)"

    rows = [
        (one.name, *(_cell(cells, one, shape, ONE_READ, shown) for shape in SHAPES))
        for one in DECODE
    ]
    return table(("delay behind a burst", *SHAPES), rows)


def everything(decoding: Sequence[Cell], framing: Sequence[Cell], waits: Sequence[Cell]) -> str:
    """All tables of speed."""
    parts = [
        f"{what}, {shape} events, by size of read\n\n{rates(cells, contenders, shape)}"
        for what, cells, contenders in (
            ("Decode, JSON and pick: events a second", decoding, DECODE),
            ("Framing alone: events a second", framing, FRAMING),
        )
        for shape in SHAPES
    ]
    behind = "Delay of a visible delta behind a 70 KB burst in the same read"
    return "\n\n".join([*parts, f"{behind}\n\n{delays(waits)}"])


def _cell(
    cells: Sequence[Cell],
    contender: Contender,
    shape: str,
    reads: str,
    shown: Callable[[float, float], str],
) -> str:
    found = value(cells, contender.name, shape, reads)
    ours = value(cells, CLIENT, shape, reads)
    return MISSING if found is None or ours is None else shown(found, ours)
