"""What CI calls must fail when it did not check what it says it checks."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
SOUND = """
.PHONY: tools check test chaos
tools:
\t@echo installed
check:
\t@echo checked
test:
\t@echo tested
chaos:
\t@echo survived
.venv/.ready:
\t@echo ready
"""


def run(folder: Path, makefile: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` in a repository that has only this Makefile, called from elsewhere."""
    (folder / ".ci").mkdir()
    (folder / "Makefile").write_text(makefile)
    script = shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    return subprocess.run([script], cwd="/", capture_output=True, text=True, check=False)


def test_each_step_is_named_and_run(tmp_path: Path) -> None:
    done = run(tmp_path, SOUND)

    assert done.returncode == 0
    assert re.findall(r"^(?:== \w+|\w+ed)$", done.stdout, re.MULTILINE) == [
        "== tools",
        "installed",
        "== check",
        "checked",
        "== test",
        "tested",
        "== chaos",
        "survived",
    ]


@pytest.mark.parametrize(
    "makefile",
    [
        SOUND.replace("test:\n", "tset:\n"),
        SOUND.replace("check:\n\t@echo checked\n", ""),
        SOUND.replace("\t@echo tested\n", ""),
        SOUND.replace("chaos:\n\t@echo survived\n", ""),
        SOUND.replace("\t@echo installed\n", ""),
        SOUND.replace("echo survived", "false"),
        SOUND.replace("echo checked", "false"),
        SOUND.replace("echo tested", "exit 3"),
        SOUND.replace("echo ready", "false"),
    ],
)
def test_a_step_that_is_missing_empty_or_failing_fails_the_run(
    makefile: str, tmp_path: Path
) -> None:
    assert makefile != SOUND
    assert run(tmp_path, makefile).returncode != 0


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by that name, and would refuse the second."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_the_help_lists_every_target_people_call() -> None:
    targets = re.findall(r"^([a-z-]+):(?!=).*$", MAKEFILE, re.MULTILINE)
    described = re.findall(r"^([a-z-]+):.*## \S", MAKEFILE, re.MULTILINE)

    assert set(targets) - set(described) == {"lengths"}
    assert {"demo", "test", "test-all", "check", "lock", "bench", "clean"} <= set(described)
