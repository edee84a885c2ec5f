"""The benchmark of the commands' start runs and says what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "benchmarks" / "startup.py"


def test_a_quick_run_measures_every_command() -> None:
    command = [sys.executable, str(PROGRAM), "--quick", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False)

    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])
    figures = result["milliseconds"]
    assert {target["name"] for target in result["targets"]} <= figures.keys()
    assert figures["python"]["cpu"] < figures["longstream --help"]["cpu"]
    assert figures["longstream --help"]["cpu"] < figures["longstream tail JOB"]["cpu"]
