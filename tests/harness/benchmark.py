"""What every benchmark program shares: its options, its turns, its targets, and its one result.

A program measures its contenders in turn (A B A B), so that whatever else the machine does meets
all of them, and quotes medians. It prints a report for people or, with `--json`, one object on the
last line. A contender that is not installed is reported as missing, and a target that needs it is
neither met nor missed: `measured` and `ok` are null.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from importlib.util import find_spec
from statistics import median
from typing import Any, Literal

#: What a figure is the median of.
REPETITIONS = 7
QUICK_REPETITIONS = 2

#: A turn shorter than this measures the clock.
TURN_S = 0.02

#: Runs once and returns the seconds it took.
Turn = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Target:
    """What was to be reached, and what was."""

    name: str
    target: float
    measured: float | None
    unit: str
    better: Literal["lower", "higher"]

    @property
    def ok(self) -> bool | None:
        if self.measured is None:
            return None
        higher = self.better == "higher"
        return self.measured >= self.target if higher else self.measured <= self.target

    def line(self) -> str:
        word = {True: "met", False: "MISSED", None: "not measured"}[self.ok]
        least = "at least" if self.better == "higher" else "at most"
        found = "" if self.measured is None else f"{self.measured:.4g} {self.unit}, "
        return f"{word:<12} {self.name}: {found}target {least} {self.target:.4g} {self.unit}"


@dataclass(slots=True)
class Report:
    """The result of one program. `figures` are its own, of any shape that JSON has."""

    benchmark: str
    quick: bool
    repetitions: int
    versions: dict[str, str | None]
    targets: list[Target] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The packages of contenders that are not installed."""
        return sorted(name for name, version in self.versions.items() if version is None)

    def as_json(self) -> str:
        """One line: the object the results of all programs have in common."""
        targets = [asdict(target) | {"ok": target.ok} for target in self.targets]
        shown = {
            "benchmark": self.benchmark,
            "quick": self.quick,
            "repetitions": self.repetitions,
            "machine": machine(),
            "versions": self.versions,
            "missing": self.missing,
            "targets": targets,
        }
        return json.dumps(shown | self.figures)

    def heading(self) -> str:
        """The line a report for people begins with."""
        told = ", ".join(
            f"{name} {version or 'MISSING'}" for name, version in self.versions.items()
        )
        return f"Medians of {self.repetitions}, {machine()}; {told}."

    def verdicts(self) -> str:
        return "\n".join(target.line() for target in self.targets)


def options(description: str) -> argparse.ArgumentParser:
    """The options every program has; a program adds its own."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    parser.add_argument("--quick", action="store_true", help="a first look: few repetitions")
    return parser


def repetitions(*, quick: bool) -> int:
    return QUICK_REPETITIONS if quick else REPETITIONS


def versions(*packages: str) -> dict[str, str | None]:
    """The installed version of Python and of each package; None when it is missing."""
    return {"python": platform.python_version()} | {name: _version(name) for name in packages}


def installed(module: str) -> bool:
    return find_spec(module) is not None


def machine() -> str:
    return f"{os.cpu_count()} shared cores, {platform.system()} {platform.machine()}"


def in_turn(turns: Mapping[str, Turn], times: int) -> dict[str, float]:
    """The median seconds of one run of each, measured A B A B."""
    loops = {name: max(1, round(TURN_S / max(turn(), 1e-9))) for name, turn in turns.items()}
    seen: dict[str, list[float]] = {name: [] for name in turns}
    # What the program itself keeps is nobody's garbage, and must not be searched in every turn.
    gc.collect()
    gc.freeze()
    for _ in range(times):
        for name, turn in turns.items():
            gc.collect()
            taken_s = sum(turn() for _ in range(loops[name]))
            seen[name].append(taken_s / loops[name])
    gc.unfreeze()
    return {name: median(values) for name, values in seen.items()}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
