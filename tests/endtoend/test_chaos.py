"""A short chaos run with every kind of fault; `make chaos` runs the same by hand and in CI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.local.chaos.plan import Fault

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_fault_at_once_breaks_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tasks.cli", "chaos", "--jobs", "40", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    report: Any = json.loads(ran.stdout)
    assert (report["verdict"], ran.returncode) == (
        {key: [] for key in report["verdict"]},
        0,
    ), ran.stderr
    assert set(report["injected"]) >= {Fault.KILL, Fault.PAUSE, Fault.REDIS_KILL, Fault.DRAIN}
    assert report["jobs"] == 40
