"""Writing a result: whole files or none, only over what was sent, and each refusal says why."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tasks.edits import disk
from tasks.edits.answer import Answer
from tasks.edits.apply import Applied, Refused
from tasks.edits.checks import Result, check
from tasks.edits.source import read_sources
from tests.harness.edits import apply, ordinary_user, write_out

ODD_NAMES = ["with space.py", 'quo"te.py', "new\nline.py", "naïve/日本.py", "n" * 252 + ".py"]


def result_of(root: Path, answers: dict[str, str]) -> Result:
    files = read_sources(list(answers), root, 1_000_000)
    return check(files, Answer(answers), root)


def one_change(root: Path, before: bytes = b"x = 1\n", after: str = "x = 2\n") -> Result:
    (root / "a.py").write_bytes(before)
    return result_of(root, {"a.py": after})


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def refusal(outcomes: list[Applied | Refused]) -> str:
    (only,) = outcomes
    assert isinstance(only, Refused)
    assert only.reason.isprintable()
    return only.reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x = 1\n", b"x = 2\n"),
        (b"x = 1", b"x = 2"),
        (b"x = 1\r\n", b"x = 2\r\n"),
        (b"x = 1\r", b"x = 2\r"),
        (b"\xef\xbb\xbfx = 1\r\n", b"\xef\xbb\xbfx = 2\r\n"),
    ],
)
def test_a_file_keeps_its_encoding_line_endings_and_final_newline(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    (tmp_path / "a.py").write_bytes(before)
    (source,) = read_sources(["a.py"], tmp_path, 1000)
    result = check([source], Answer({"a.py": source.text_of(["x = 2"])}), tmp_path)

    assert apply(result, tmp_path) == [Applied("a.py")]
    assert (tmp_path / "a.py").read_bytes() == after


def test_a_declared_encoding_is_kept(tmp_path: Path) -> None:
    result = one_change(
        tmp_path, b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'éé'\n"
    )

    assert apply(result, tmp_path) == [Applied("a.py")]
    assert (tmp_path / "a.py").read_bytes() == b"# coding: latin-1\nx = '\xe9\xe9'\n"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_is_written_whatever_its_name(tmp_path: Path, name: str) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("x = 1\n")
    result = result_of(root, {name: "x = 2\n"})

    assert write_out(result, out) == [Applied(name)]
    assert apply(result, root) == [Applied(name)]
    assert (root / name).read_text() == (out / name).read_text() == "x = 2\n"


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_the_mode_is_kept(tmp_path: Path, mode: int) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").chmod(mode)

    apply(result, tmp_path)

    assert stat.S_IMODE((tmp_path / "a.py").stat().st_mode) == mode


def test_nothing_but_the_file_is_left_behind(tmp_path: Path) -> None:
    apply(one_change(tmp_path), tmp_path)

    assert names_in(tmp_path) == ["a.py"]


def test_applying_twice_writes_once(tmp_path: Path) -> None:
    result = one_change(tmp_path)
    apply(result, tmp_path)
    inode = (tmp_path / "a.py").stat().st_ino

    assert apply(result, tmp_path) == [Applied("a.py", written=False)]
    assert (tmp_path / "a.py").stat().st_ino == inode


@pytest.mark.parametrize("newer", [b"x = 7\n", b"x = 1\n# more\n", b"", b"#" * 9999])
def test_a_file_that_changed_since_is_left_alone_even_by_force(
    tmp_path: Path, newer: bytes
) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").write_bytes(newer)

    assert "changed since it was sent" in refusal(apply(result, tmp_path, force=True))
    assert (tmp_path / "a.py").read_bytes() == newer


def test_one_refusal_does_not_stop_the_others(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("x = 1\n")
    result = result_of(tmp_path, {"a.py": "x = 2\n", "b.py": "x = 2\n", "c.py": "x = 2\n"})
    (tmp_path / "b.py").write_text("x = 3\n")

    first, second, third = apply(result, tmp_path)

    assert (first, third) == (Applied("a.py"), Applied("c.py"))
    assert isinstance(second, Refused)


def test_a_file_that_vanished_is_not_made_again(tmp_path: Path) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").unlink()

    assert refusal(apply(result, tmp_path)) == "is not there any more"
    assert names_in(tmp_path) == []


def test_a_file_that_became_a_directory_or_a_pipe_is_refused(tmp_path: Path) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").unlink()
    (tmp_path / "a.py").mkdir()
    assert refusal(apply(result, tmp_path)) == "cannot be written: is a directory"

    (tmp_path / "a.py").rmdir()
    os.mkfifo(tmp_path / "a.py")
    assert refusal(apply(result, tmp_path)) == "is not a regular file"


def test_a_file_that_became_a_link_outside_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    result = one_change(root)
    (root / "a.py").rename(tmp_path / "outside.py")
    (root / "a.py").symlink_to(tmp_path / "outside.py")

    assert "outside the root" in refusal(apply(result, root, force=True))
    assert (tmp_path / "outside.py").read_text() == "x = 1\n"


def test_a_file_that_became_a_link_inside_stays_one_and_its_file_changes(tmp_path: Path) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "real.py")
    (tmp_path / "a.py").symlink_to("real.py")

    apply(result, tmp_path, force=True)

    assert (tmp_path / "a.py").is_symlink()
    assert (tmp_path / "real.py").read_text() == "x = 2\n"


def test_python_that_does_not_compile_is_written_only_by_force(tmp_path: Path) -> None:
    result = one_change(tmp_path, after="x = (\n")

    assert "does not compile" in refusal(apply(result, tmp_path))
    assert "--force" in refusal(write_out(result, tmp_path / "out"))
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert apply(result, tmp_path, force=True) == [Applied("a.py")]


def test_unchanged_files_are_not_touched_and_refused_ones_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    files = read_sources(["a.py"], tmp_path, 1000)
    result = check(files, Answer({"a.py": "x = 1\n", "b.py": "x = 2\n"}), tmp_path)

    assert refusal(apply(result, tmp_path)) == "is not one of the files that were sent"


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").chmod(0o444)

    assert refusal(apply(result, tmp_path)) == "is read-only; allow writing with chmod u+w"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    with ordinary_user() as directory:
        yield directory


def test_a_read_only_directory_is_a_clear_refusal(unprivileged: Path) -> None:
    result = one_change(unprivileged)
    unprivileged.chmod(0o555)

    assert refusal(apply(result, unprivileged)) == "cannot be written: permission denied"
    assert (
        refusal(write_out(result, unprivileged / "out")) == "cannot be written: permission denied"
    )
    assert (unprivileged / "a.py").read_text() == "x = 1\n"
    assert names_in(unprivileged) == ["a.py"]


@contextmanager
def small_files_only() -> Iterator[None]:
    """The kernel stops every write at 4 KiB, in the middle of it, as a full disk does.

    No longer than it takes: it stops the test runner's own output just as well.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path: Path) -> None:
    result = one_change(tmp_path, after="x = 2\n" * 2000)

    with small_files_only():
        outcomes = apply(result, tmp_path)
    assert refusal(outcomes) == "cannot be written: file too large"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert names_in(tmp_path) == ["a.py"]


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    result = one_change(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)

    assert refusal(apply(result, tmp_path)) == "cannot be written: no space left on device"
    assert refusal(write_out(result, tmp_path / "out")) == (
        "cannot be written: no space left on device"
    )
    monkeypatch.undo()
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert names_in(tmp_path) == ["a.py", "out"]
    assert names_in(tmp_path / "out") == []


def test_reading_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")
    (tmp_path / "b.py").write_text("x = 1\n")

    with pytest.raises(OSError, match="symbolic"):
        disk.read_regular(tmp_path / "a.py", 10)


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = one_change(tmp_path)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        apply(result, tmp_path)

    assert names_in(tmp_path) == ["a.py"]
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("newer", [b"x = 9\n", None])
def test_a_change_during_the_write_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newer: bytes | None
) -> None:
    result = one_change(tmp_path)
    target = tmp_path / "a.py"

    def meanwhile(_: int) -> None:
        target.unlink() if newer is None else target.write_bytes(newer)

    monkeypatch.setattr(disk.os, "fsync", meanwhile)

    assert refusal(apply(result, tmp_path)) == "changed while it was being replaced"
    assert (target.read_bytes() if target.exists() else None) == newer


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = one_change(tmp_path)
    whole_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole_write(fd, data[:1]))

    apply(result, tmp_path)

    assert (tmp_path / "a.py").read_text() == "x = 2\n"


def test_an_output_directory_gets_the_same_relative_paths(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_bytes(b"x = 1\r\n")
    result = result_of(tmp_path, {"src/a.py": "x = 2\n"})

    assert write_out(result, tmp_path / "deep/out") == [Applied("src/a.py")]
    assert (tmp_path / "deep/out/src/a.py").read_bytes() == b"x = 2\r\n"
    assert (tmp_path / "src/a.py").read_bytes() == b"x = 1\r\n"
    assert write_out(result, tmp_path / "deep/out") == [Applied("src/a.py", written=False)]


@pytest.mark.parametrize("there", ["x = 1\n", "x = 2\n# and more\n", ""])
def test_an_output_directory_overwrites_nothing(tmp_path: Path, there: str) -> None:
    result = one_change(tmp_path)
    (tmp_path / "a.py").write_text(there)

    assert "is there already" in refusal(write_out(result, tmp_path))
    assert (tmp_path / "a.py").read_text() == there


def test_an_output_directory_is_not_left_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "root/src").mkdir(parents=True)
    (tmp_path / "root/src/a.py").write_text("x = 1\n")
    result = result_of(tmp_path / "root", {"src/a.py": "x = 2\n"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out/src").symlink_to(tmp_path)

    assert "outside the root" in refusal(write_out(result, tmp_path / "out"))


def test_an_output_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    result = one_change(tmp_path)

    assert "not a directory" in refusal(write_out(result, tmp_path / "a.py"))


def test_outcomes_say_their_state_in_json() -> None:
    assert msgspec.json.encode([Applied("a.py"), Refused("b.py", "why")]) == (
        b'[{"state":"applied","path":"a.py","written":true},'
        b'{"state":"refused","path":"b.py","reason":"why"}]'
    )
