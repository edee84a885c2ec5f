"""The user's command judges a copy: it sees the tree as it is, and can not touch it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.runs.scratch import Checked, Scratch, ScratchError
from tests.harness.refactoring import git
from tests.harness.waiting import wait_until


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / ".gitignore").write_text("cache/\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "x").write_text("x")
    (tmp_path / "link").symlink_to("src/a.py")
    return tmp_path


def test_the_copy_has_what_git_would_not_ignore_and_the_original_is_safe(tree: Path) -> None:
    with Scratch(tree, "rm -rf src && test ! -e cache && test -L link", 20) as scratch:
        place = scratch.root
        assert scratch.check().passed
    assert (tree / "src" / "a.py").read_text() == "a = 1\n"
    assert not place.exists()


def test_the_command_runs_where_the_paths_begin_in_a_copy_of_the_whole_repository(
    tree: Path,
) -> None:
    git(tree, "init", "--quiet")
    with Scratch(tree / "src", "test -e a.py && test -e ../.gitignore", 20) as scratch:
        assert scratch.check().passed


def test_a_file_is_put_as_it_would_be_and_links_are_replaced(tree: Path) -> None:
    with Scratch(tree, "grep -q 2 src/a.py && grep -q 1 link", 20) as scratch:
        scratch.put("link", b"1\n")
        scratch.put("src/a.py", b"a = 2\n")
        assert scratch.check().passed
    assert (tree / "src" / "a.py").read_text() == "a = 1\n"


def test_a_program_that_is_put_can_still_be_run(tree: Path) -> None:
    (tree / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    (tree / "run.sh").chmod(0o755)
    with Scratch(tree, "./run.sh", 20) as scratch:
        assert not scratch.check().passed
        scratch.put("run.sh", b"#!/bin/sh\nexit 0\n")
        assert scratch.check() == Checked("")


def test_a_copy_that_is_interrupted_is_removed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr("tempfile.tempdir", str(place))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copy2", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Scratch(tree, "true", 20)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "within_s", "why", "output"),
    [
        ("echo out; echo err >&2; exit 3", 20, "the check failed with exit code 3", "out\nerr"),
        ("kill -9 $$", 20, "the check was ended by signal 9", ""),
        ("sleep 60", 0.1, "the check took longer than 0.1 s", ""),
        ("no-such-command-at-all", 20, "the check failed with exit code 127", None),
        ("cat", 20, "", ""),
    ],
)
def test_how_the_command_ended_is_said(
    tree: Path, command: str, within_s: float, why: str, output: str | None
) -> None:
    with Scratch(tree, command, within_s) as scratch:
        checked = scratch.check()
    assert checked.why == why
    assert output is None or checked.output == output


def test_nothing_the_command_started_is_left(tree: Path, tmp_path: Path) -> None:
    with Scratch(tree, f"sleep 300 & echo $! > {tmp_path}/pid", 20) as scratch:
        assert scratch.check().passed
    pid = int((tmp_path / "pid").read_text())
    wait_until("the background process is gone", lambda: not _lives(pid))


def test_a_copy_that_can_not_be_made_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(ScratchError, match="no copy to check in: x: no space left on device"):
        Scratch(tree, "true", 20)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
