"""What killed processes leave is removed, and nothing else: no file of a user or a live process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.edits import leftovers
from tasks.edits.disk import ChangedMeanwhile, replace_file
from tasks.edits.leftovers import TemporaryDirectory, sweep, temporary_file
from tests.harness.refactoring import Refactoring

#: Says when it has come to the rename, and stays there.
STOPS_BEFORE_THE_RENAME = """
import sys
from pathlib import Path
from tasks.edits import disk
def stop(*_):
    print("here", flush=True)
    sys.stdin.read()
Path.replace = stop
target = Path(sys.argv[1])
disk.replace_file(target, b"new", like=target.stat())
"""
HOLDS_A_COPY = """
import sys
from tasks.edits.leftovers import TemporaryDirectory
with TemporaryDirectory("check") as place:
    (place / "inside").mkdir()
    print(place, flush=True)
    sys.stdin.read()
"""


@contextmanager
def stopped(program: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, at the point where it says something; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGKILL)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def left_by_a_killed_process(directory: Path) -> Path:
    with temporary_file(directory) as (_, path):
        name = path
    name.write_text("half")
    return name


def test_what_a_process_left_is_removed_once_it_is_killed_and_not_before(tmp_path: Path) -> None:
    target = tmp_path / "a.py"
    target.write_text("old")
    with stopped(STOPS_BEFORE_THE_RENAME, target) as (process, said):
        assert said == "here"
        before = names_in(tmp_path)
        assert len(before) == 2
        assert sweep(tmp_path) == []
        assert names_in(tmp_path) == before, "its process lives"
        process.kill()
        process.wait()
        assert names_in(tmp_path) == before
        assert sweep(tmp_path) == []
    assert names_in(tmp_path) == ["a.py"]
    assert target.read_text() == "old"


def test_a_file_of_the_user_is_never_a_leftover(tmp_path: Path) -> None:
    proven = left_by_a_killed_process(tmp_path)
    proven.unlink()
    name = proven.name
    kept = [".longstream-notes", ".longstream-0123456789abcdef", name[:-1] + "x", name + "~"]
    kept += [name.replace(".longstream-", ".longstream-a"), name[1:], name.upper()]
    for each in kept:
        (tmp_path / each).write_text("mine")
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / name).symlink_to(tmp_path / kept[0])
    for kind, make in (("pipe", os.mkfifo), ("folder", os.mkdir)):
        (tmp_path / kind).mkdir()
        make(tmp_path / kind / name)

    for directory in (tmp_path, *(tmp_path / kind for kind in ("of", "pipe", "folder"))):
        assert sweep(directory) == []

    assert names_in(tmp_path) == sorted([*kept, "of", "pipe", "folder"])
    assert all(names_in(tmp_path / kind) == [name] for kind in ("of", "pipe", "folder"))


def test_a_sweep_between_the_making_and_the_locking_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("old")
    is_locked, swept = leftovers._is_locked, []

    def late(descriptor: int, path: Path) -> bool:
        if not swept:
            swept.append(path)
            sweep(tmp_path)
        return is_locked(descriptor, path)

    monkeypatch.setattr(leftovers, "_is_locked", late)
    replace_file(tmp_path / "a.py", b"new", (tmp_path / "a.py").stat())
    assert swept
    assert names_in(tmp_path) == ["a.py"]
    assert (tmp_path / "a.py").read_text() == "new"


def test_a_directory_that_is_not_there_or_that_is_a_file_holds_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert sweep(tmp_path / "gone") == sweep(tmp_path / "file") == []


def test_a_copy_of_a_killed_process_goes_when_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "longstream-check-mine").mkdir()
    with stopped(HOLDS_A_COPY) as (process, place):
        with TemporaryDirectory("check"), TemporaryDirectory("index"):
            assert len(names_in(tmp_path)) == 4
        process.kill()
        process.wait()
        assert Path(place).is_dir()
        with TemporaryDirectory("index"):
            assert Path(place).is_dir(), "of another kind"
        with TemporaryDirectory("check"):
            assert not Path(place).exists()
    assert names_in(tmp_path) == ["longstream-check-mine"]


def test_a_new_file_does_not_replace_one_that_appeared_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new.py"
    monkeypatch.setattr(os, "fsync", lambda _: target.write_text("of somebody else"))
    with pytest.raises(ChangedMeanwhile, match="appeared while it was being written"):
        replace_file(target, b"x", like=None)
    assert target.read_text() == "of somebody else"
    assert names_in(tmp_path) == ["new.py"]


@pytest.mark.parametrize("how", ["apply", "out", "patch", "diff"])
def test_whoever_delivers_a_run_removes_what_killed_commands_left_where_it_writes(
    tmp_path: Path, how: str
) -> None:
    root = tmp_path / "root"
    to = {"out": tmp_path / "out", "patch": tmp_path / "out" / "all.patch"}.get(how, "")
    made = Refactoring(root, {"a.py": b"a = 1\n", "sub/b.py": b"b = 1\n"}, how, to=str(to))  # type: ignore[arg-type]
    (tmp_path / "out").mkdir()
    places = [root, root / "sub", *([tmp_path / "out"] if to else [])]
    left = [left_by_a_killed_process(place) for place in places]
    apart = left_by_a_killed_process(tmp_path)
    with temporary_file(root) as (_, of_another_command):
        assert made.deliverer.sweep() == []
        assert of_another_command.exists()
    assert not any(path.exists() for path in left)
    assert apart.exists(), "nothing is looked for where nothing is written"


def test_what_can_not_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Refactoring(tmp_path, {"a.py": b"a = 1\n"})
    left = left_by_a_killed_process(tmp_path)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    said = made.deliverer.sweep()
    assert said == [f"{left} is left from a killed command: permission denied"]


def test_a_directory_that_became_a_link_out_of_the_tree_is_not_looked_into(tmp_path: Path) -> None:
    made = Refactoring(tmp_path / "root", {"sub/b.py": b"b = 1\n"})
    (tmp_path / "root" / "sub").rename(tmp_path / "outside")
    (tmp_path / "root" / "sub").symlink_to(tmp_path / "outside")
    left = left_by_a_killed_process(tmp_path / "outside")
    assert made.deliverer.sweep() == []
    assert left.exists()


def test_a_directory_that_takes_no_file_is_named_and_not_the_hidden_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        replace_file(tmp_path / "gone" / "a.py", b"x", like=None)
    assert raised.value.filename == str(tmp_path / "gone")
