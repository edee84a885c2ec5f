"""The examples of docs/python.md run, in the order in which they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.harness.cluster import ROOT, Cluster

DOC = (ROOT / "docs" / "python.md").read_text("utf-8")
_BLOCK = re.compile(r"^```python(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


def test_the_examples_of_the_documentation_run(tmp_path: Path) -> None:
    blocks = _BLOCK.findall(DOC)
    script = "\n".join(code for name, code in blocks if not name)
    for name, code in blocks:
        if name:
            (tmp_path / name).write_text(code, "utf-8")
    (tmp_path / "script.py").write_text(script, "utf-8")
    cluster = Cluster(tmp_path, LONGSTREAM_TASK_MODULES="reviews")
    try:
        cluster.worker()
        done = subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "script.py"],
            cwd=tmp_path,
            env=cluster.environ,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    finally:
        cluster.close()

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "outcome: completed" in lines
    assert len([line for line in lines if re.fullmatch(r"\w+ completed \d+", line)]) == 5
    assert "list" in lines
    assert "reviews.review completed" in lines


def test_a_module_that_cannot_be_imported_is_named_when_the_worker_starts(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tasks.cli", "worker"],
            cwd=tmp_path,
            env=cluster.environ | {"LONGSTREAM_TASK_MODULES": "reviews, nowhere"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        cluster.close()

    assert done.returncode == 2
    assert "task_modules: cannot import reviews: No module named 'reviews'" in done.stderr
