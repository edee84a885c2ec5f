"""Whether a file can be put somewhere, told before what is to be in it is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.edits.disk import why_unwritable


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("x")
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "dir" / "new")
    (tmp_path / "dangling").symlink_to(tmp_path / "none" / "new")
    return tmp_path


@pytest.mark.parametrize("name", ["file", "new", "dir/new", "link"])
def test_a_file_or_a_new_one_in_a_directory_is_fine(place: Path, name: str) -> None:
    assert why_unwritable(place / name) == ""


@pytest.mark.parametrize("name", [".", "dir", "dir/a/b/c", "new"])
def test_a_tree_may_begin_anywhere_below_a_directory(place: Path, name: str) -> None:
    assert why_unwritable(place / name, tree=True) == ""


@pytest.mark.parametrize(
    ("name", "tree", "problem"),
    [
        ("dir", False, "is not a regular file"),
        ("none/new", False, "there is no directory"),
        ("dangling", False, "there is no directory"),
        ("file/new", False, "is not a directory"),
        ("file", True, "is not a directory"),
        ("file/new", True, "is not a directory"),
    ],
)
def test_what_can_not_be_is_said(place: Path, name: str, tree: bool, problem: str) -> None:
    assert problem in why_unwritable(place / name, tree=tree)
