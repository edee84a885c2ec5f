"""How long a command takes before it shows anything, on a stack that runs.

Each turn is a process of its own, from its start to the first byte it prints: Python alone, for
scale; `longstream --help`; `longstream tail JOB` of an ended job, at the embedded stack and at a
Redis that is given; `longstream ask` and `longstream refactor --json`, the first character of whose
answer has come all the way from the simulator at full speed. Beside the time stands the CPU time of
the whole process. The commands take turns.

    python tests/benchmarks/startup.py [--quick] [--json]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.harness.benchmark import Report, Target, options, table, versions
from tests.harness.cli import Cli

REPETITIONS = 21
QUICK_REPETITIONS = 3
PYTHON, HELP, TAIL = "python", "longstream --help", "longstream tail JOB"
GIVEN = "longstream tail JOB, Redis given"
ASK, REFACTOR = "longstream ask", "longstream refactor"

#: What stands in the output once there is text of the answer, where more than that is told.
_TEXT = b'"type":"text"'


#: The slowest that each may be, in seconds.
LIMITS = {HELP: 0.150, TAIL: 0.250, ASK: 0.300, REFACTOR: 0.300}


def first_byte(
    cli: Cli, arguments: Sequence[str], env: dict[str, str], until: bytes = b""
) -> tuple[float, float]:
    """Seconds until a program of Python prints its first byte, or `until`, and those of CPU."""
    began = time.perf_counter()
    with cli.python(*arguments, env=env, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        first = more = process.stdout.read(4096)
        while more and until not in first:
            first += (more := process.stdout.read(4096))
        taken_s = time.perf_counter() - began
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if not first or until not in first or process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return taken_s, used.ru_utime + used.ru_stime


def measured(cli: Cli, times: int) -> dict[str, dict[str, Any]]:
    """Medians and extremes of each command, in milliseconds."""
    job = cli.submitted("ask", "hello")
    cli.run("tail", job)
    ours = ("-m", "tasks.cli")
    (cli.work / "app.py").write_text("def add(a, b):\n    return a + b\n")
    commands: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        PYTHON: (("-c", "print()"), {}),
        HELP: ((*ours, "--help"), {}),
        TAIL: ((*ours, "tail", job), {}),
        GIVEN: ((*ours, "tail", job), {"LONGSTREAM_REDIS_URL": cli.stack.url}),
        ASK: ((*ours, "ask", "hello"), {}),
        REFACTOR: ((*ours, "refactor", "app.py", "-m", "add types", "--json"), {}),
    }
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(times):
        for name, (arguments, env) in commands.items():
            until = _TEXT if name == REFACTOR else b""
            seen[name].append(first_byte(cli, arguments, env, until))
    return {name: _summed_up(turns) for name, turns in seen.items()}


def _summed_up(turns: Sequence[tuple[float, float]]) -> dict[str, float]:
    walls, cpus = zip(*turns, strict=True)
    figures = {"first_byte": median(walls), "best": min(walls), "worst": max(walls)}
    return {name: 1000 * value for name, value in (figures | {"cpu": median(cpus)}).items()}


def targets(figures: dict[str, dict[str, float]]) -> list[Target]:
    return [
        Target(name, 1000 * limit_s, figures[name]["first_byte"], "ms to the first byte", "lower")
        for name, limit_s in LIMITS.items()
    ]


def shown(figures: dict[str, dict[str, float]]) -> str:
    heads = {"first_byte": "first byte", "best": "best", "worst": "worst", "cpu": "CPU"}
    rows = [[name, *(f"{each[of]:.0f} ms" for of in heads)] for name, each in figures.items()]
    return table(("command", *heads.values()), rows)


def main() -> int:
    chosen = options(__doc__ or "").parse_args()
    times = QUICK_REPETITIONS if chosen.quick else REPETITIONS
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        cli = Cli(work / "state", work)
        try:
            figures = measured(cli, times)
        finally:
            cli.close()
    result = Report(
        benchmark="startup",
        quick=chosen.quick,
        repetitions=times,
        versions=versions("click", "redis", "msgspec"),
        targets=targets(figures),
        figures={"milliseconds": figures},
    )
    if chosen.json:
        print(result.as_json())
    else:
        print(result.heading(), "", shown(figures), "", result.verdicts(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
