"""What becomes of the files of a run: nothing twice, nothing half, nothing that is not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tasks.runs.delivery import Deliverer
from tasks.runs.scratch import Scratch
from tests.harness.refactoring import Memory, Refactoring, began, cut, said, sealed

FILES = {"a.py": b"a = 1\n", "b.py": b"b = 1\n"}


@pytest.fixture
def made(tmp_path: Path) -> Refactoring:
    return Refactoring(tmp_path, FILES)


def test_a_file_is_written_as_soon_as_it_is_ready(made: Refactoring) -> None:
    assert made.take(began(), said(made.answer(a="a = 2\n"))) == {"a.py": "written"}
    assert made.read("a.py") == "a = 2\n"
    assert made.take(sealed()) == {"b.py": "unchanged"}


def test_a_command_that_died_between_two_files_writes_none_twice(made: Refactoring) -> None:
    made.take(began(), said(made.answer(a="a = 2\n")))
    before = (made.root / "a.py").stat()
    made.restart()
    made.whole(made.answer(a="a = 2\n", b="b = 2\n"))
    assert (made.root / "a.py").stat().st_mtime_ns == before.st_mtime_ns
    assert (made.root / "a.py").stat().st_ino == before.st_ino
    assert made.deliverer.done["a.py"].reason == "was written before"
    assert made.read("b.py") == "b = 2\n"


def test_a_command_that_died_before_the_write_it_meant_writes_it(
    made: Refactoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tasks.edits.apply.replace_file", die)
    with pytest.raises(KeyboardInterrupt):
        made.take(began(), said(made.answer(a="a = 2\n")))
    monkeypatch.undo()
    assert made.read("a.py") == "a = 1\n"
    made.restart()
    assert made.whole(made.answer(a="a = 2\n"))["a.py"] == "written"
    assert made.read("a.py") == "a = 2\n"


def test_a_restarted_answer_that_differs_has_the_last_word(made: Refactoring) -> None:
    made.take(began(), said(made.answer(a="a = 2\n", b="b = 2\n")))
    made.take(cut(), began(2, "restart"))
    told = made.take(said(made.answer(a="a = 3\n")), sealed())
    assert told == {"a.py": "written", "b.py": "put back"}
    assert (made.read("a.py"), made.read("b.py")) == ("a = 3\n", "b = 1\n")


def test_a_file_the_user_touched_after_it_was_written_is_left_alone(made: Refactoring) -> None:
    made.take(began(), said(made.answer(a="a = 2\n", b="b = 2\n")))
    (made.root / "a.py").write_text("mine\n")
    (made.root / "b.py").write_text("mine\n")
    told = made.take(cut(), began(2, "restart"), said(made.answer(a="a = 3\n")), sealed())
    assert told == {"a.py": "refused", "b.py": "refused"}
    assert (made.read("a.py"), made.read("b.py")) == ("mine\n", "mine\n")


def test_an_answer_that_says_a_file_stays_puts_it_back(made: Refactoring) -> None:
    made.take(began(), said(made.answer(a="a = 2\n")))
    told = made.take(cut(), began(2, "restart"), said(made.answer(a="a = 1\n")), sealed())
    assert told["a.py"] == "put back"
    assert made.read("a.py") == "a = 1\n"


def test_files_that_did_not_come_are_said_and_those_that_did_are_kept(made: Refactoring) -> None:
    made.take(began(), said(made.answer(a="a = 2\n")), sealed("incomplete", "length"))
    done = made.deliverer.done
    assert (done["a.py"].state, done["b.py"].state) == ("written", "missing")
    assert done["b.py"].reason == "job job incomplete: length"


def test_python_that_does_not_compile_waits_for_force(tmp_path: Path) -> None:
    made = Refactoring(tmp_path, FILES)
    assert made.whole(made.answer(a="def\n"))["a.py"] == "doubtful"
    assert made.read("a.py") == "a = 1\n"
    forced = Refactoring(tmp_path, FILES, force=True)
    assert forced.whole(forced.answer(a="def\n"))["a.py"] == "written"


def test_a_full_disk_leaves_every_file_whole(
    made: Refactoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    told = made.whole(made.answer(a="a = 2\n", b="b = 2\n"))
    monkeypatch.undo()
    assert told == {"a.py": "refused", "b.py": "refused"}
    reason = made.deliverer.done["a.py"].reason
    assert reason == "cannot be written: no space left on device"
    assert sorted(path.name for path in made.root.iterdir()) == ["a.py", "b.py"]
    assert made.read("a.py") == "a = 1\n"
    made.restart()
    assert made.whole(made.answer(a="a = 2\n", b="b = 2\n")) == {
        "a.py": "written",
        "b.py": "written",
    }


def test_a_read_only_file_is_refused_with_the_way_out(made: Refactoring) -> None:
    (made.root / "a.py").chmod(0o444)
    assert made.whole(made.answer(a="a = 2\n"))["a.py"] == "refused"
    assert "chmod u+w" in made.deliverer.done["a.py"].reason


def test_out_writes_beside_and_over_its_own_alone(tmp_path: Path) -> None:
    root, out = tmp_path / "in", tmp_path / "out"
    root.mkdir()
    made = Refactoring(root, FILES, "out", to=str(out))
    made.take(began(), said(made.answer(a="a = 2\n")))
    made.take(cut(), began(2, "restart"), said(made.answer(a="a = 3\n")), sealed())
    assert (out / "a.py").read_text() == "a = 3\n"
    assert made.read("a.py") == "a = 1\n"
    stranger = Refactoring(root, FILES, "out", to=str(out))
    assert stranger.whole(stranger.answer(a="a = 4\n"))["a.py"] == "refused"


def test_a_patch_is_written_at_the_end_and_replaced_whole(tmp_path: Path) -> None:
    made = Refactoring(tmp_path, FILES, "patch", to=str(tmp_path / "all.patch"))
    (tmp_path / "all.patch").write_text("old")
    made.whole(made.answer(b="b = 2\n", a="a = 2\n"))
    assert (tmp_path / "all.patch").read_text() == "old"
    assert made.deliverer.finish("m", "run") == []
    text = (tmp_path / "all.patch").read_text()
    assert text.index("a/a.py") < text.index("a/b.py")
    assert made.read("a.py") == "a = 1\n"


@pytest.fixture
def checked(tmp_path: Path) -> tuple[Refactoring, Scratch]:
    (tmp_path / "test.sh").write_text("! grep -q bad *.py\n")
    Refactoring(tmp_path, FILES)
    scratch = Scratch(tmp_path, "sh test.sh", 20)
    return Refactoring(tmp_path, FILES, scratch=scratch), scratch


def test_only_what_passes_the_users_command_is_kept(
    checked: tuple[Refactoring, Scratch],
) -> None:
    made, scratch = checked
    with scratch:
        made.take(began(), said(made.answer(a="a = 'bad'\n", b="b = 2\n")))
        assert made.read("b.py") == "b = 1\n"
        told = made.take(sealed())
    assert told == {"a.py": "refused", "b.py": "written"}
    assert made.deliverer.done["a.py"].reason == "the check failed with exit code 1"
    assert made.read("a.py") == "a = 1\n"


def test_files_that_pass_only_together_are_kept_together(tmp_path: Path) -> None:
    Refactoring(tmp_path, FILES)
    with Scratch(tmp_path, '[ "$(cat a.py | tr -d a)" = "$(cat b.py | tr -d b)" ]', 20) as scratch:
        made = Refactoring(tmp_path, FILES, scratch=scratch)
        told = made.whole(made.answer(a="a = 2\n", b="b = 2\n"))
    assert told == {"a.py": "written", "b.py": "written"}


def test_nobody_but_the_run_is_asked_what_it_wrote(tmp_path: Path) -> None:
    made = Refactoring(tmp_path, FILES, memory=Memory())
    assert isinstance(made.deliverer, Deliverer)
    made.whole(made.answer(a="a = 2\n"))
    assert set(made.memory.written) == {"a.py"}
