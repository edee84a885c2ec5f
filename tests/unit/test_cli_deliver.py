"""What is told of a refactor's changes: a command that can be typed as it stands."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tasks.cli.deliver import report
from tests.harness.refactoring import Refactoring


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "my tree"


@pytest.mark.parametrize("inside", [True, False])
def test_the_command_that_applies_a_patch_works_where_it_is_shown(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    patch = root.parent / "all of it.patch"
    made = Refactoring(root, {"a.py": b"a = 1\n"}, "patch", to=str(patch))
    made.whole(made.answer(a="a = 2\n"))
    made.deliverer.finish("tidy up", "run")
    monkeypatch.chdir(root if inside else root.parent)

    report(made.deliverer, root, "patch", str(patch))

    said = capsys.readouterr().err.strip()
    assert said.startswith("longstream: 1 file changed: git ")
    assert ("-C" in said) is not inside
    subprocess.run(shlex.split(said.partition(" changed: ")[2]), check=True)
    assert made.read("a.py") == "a = 2\n"


def test_a_diff_of_files_elsewhere_says_where_its_paths_begin(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Refactoring(root, {"a.py": b"a = 1\n"}, "diff")
    made.whole(made.answer(a="a = 2\n"))
    monkeypatch.setattr("tasks.cli.deliver.show_diff", lambda _: None)

    monkeypatch.chdir(root)
    report(made.deliverer, root, "diff", "")
    assert capsys.readouterr().err == ""
    monkeypatch.chdir(root.parent)
    report(made.deliverer, root, "diff", "")
    assert capsys.readouterr().err == f"longstream: the paths of the diff begin at {root}\n"
