"""A branch holds exactly the changes, and nothing else in the repository is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tasks.edits.checks import Change, Verdict
from tasks.edits.source import read_sources
from tasks.runs.branch import Branch, BranchError
from tests.harness.refactoring import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

FILES = {"a.py": b"a = 1\n", "sub dir/b\n\u00e9.py": b"b = 1\r\n", "c.txt": b"no newline"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.org")
    git(tmp_path, "init", "--quiet")
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def changes(root: Path, **texts: str) -> list[Change]:
    sources = {file.path[0]: file for file in read_sources(list(FILES), root, 1000)}
    sources["b"] = sources.pop("s")
    return [
        Change(Verdict(sources[name].path, "changed"), sources[name], text)
        for name, text in texts.items()
    ]


def state(root: Path) -> tuple[str, str, str]:
    return (
        git(root, "status", "--porcelain"),
        git(root, "ls-files", "--stage"),
        git(root, "rev-parse", "HEAD"),
    )


def test_the_branch_has_the_changes_and_nothing_else_is_touched(repository: Path) -> None:
    (repository / "mine.txt").write_text("untracked")
    before = state(repository)

    placed = Branch(repository, "new/one", "run1").place(
        changes(repository, a="a = 2\n", b="b = 2\n", c="newline"), "Change it\n\nall"
    )

    assert state(repository) == before
    assert placed.refused == ()
    assert git(repository, "rev-parse", "new/one").strip() == placed.commit
    shown = git(repository, "diff", "--name-only", "-z", "HEAD", "new/one").split("\0")[:-1]
    assert shown == sorted(FILES)
    assert git(repository, "show", "new/one:sub dir/b\n\u00e9.py") == "b = 2\r\n"
    assert git(repository, "show", "new/one:c.txt") == "newline"
    message = git(repository, "log", "-1", "--format=%B", "new/one")
    assert message.startswith("Change it\n\nall\n\nLongstream-Run: run1")
    assert git(repository, "log", "-1", "--format=%P", "new/one") == before[2]


def test_a_file_that_is_not_as_in_head_is_refused(repository: Path) -> None:
    (repository / "a.py").write_text("a = 'mine'\n")
    (repository / "d.py").write_text("d = 1\n")
    (new,) = read_sources(["d.py"], repository, 1000)
    wanted = [
        *changes(repository, a="a = 2\n", c="newline"),
        Change(Verdict("d.py", "changed"), new, "d = 2\n"),
    ]
    placed = Branch(repository, "b", "run1").place(wanted, "m")
    assert [path for path, _ in placed.refused] == ["a.py", "d.py"]
    assert "commit it first" in placed.refused[0][1]
    assert git(repository, "diff", "--name-only", "HEAD", "b") == "c.txt\n"


def test_below_the_top_of_the_repository_paths_are_its_own(repository: Path) -> None:
    root = repository / "sub dir"
    (source,) = read_sources(["b\n\u00e9.py"], root, 1000)
    change = Change(Verdict(source.path, "changed"), source, "b = 3\n")
    placed = Branch(root, "b", "run1").place([change], "m")
    assert placed.refused == ()
    assert git(repository, "show", "b:sub dir/b\n\u00e9.py") == "b = 3\r\n"


def test_filters_of_the_repository_are_kept(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.py text\n")
    git(repository, "add", "--all", "--renormalize")
    git(repository, "commit", "--quiet", "-m", "normal")
    placed = Branch(repository, "b", "run1").place(changes(repository, b="b = 2\n"), "m")
    assert placed.refused == ()
    assert git(repository, "show", "b:sub dir/b\n\u00e9.py") == "b = 2\n"


def test_a_branch_of_the_same_run_was_made_before_and_any_other_is_in_the_way(
    repository: Path,
) -> None:
    first = Branch(repository, "b", "run1").place(changes(repository, a="a = 2\n"), "m")
    again = Branch(repository, "b", "run1").place(changes(repository, a="a = 2\n"), "m")
    assert again.commit == first.commit
    with pytest.raises(BranchError, match="branch b exists already"):
        Branch(repository, "b", "run2").check()


def test_nothing_to_put_on_it_is_no_branch(repository: Path) -> None:
    (repository / "a.py").write_text("a = 'mine'\n")
    placed = Branch(repository, "b", "run1").place(changes(repository, a="a = 2\n"), "m")
    assert placed.commit == ""
    assert git(repository, "branch", "--list", "b") == ""


@pytest.mark.parametrize(
    ("name", "says"), [("bad..name", "is no branch name"), ("-x", "is no branch name")]
)
def test_what_is_no_branch_name_is_said(repository: Path, name: str, says: str) -> None:
    with pytest.raises(BranchError, match=says):
        Branch(repository, name, "run1").check()


def test_where_there_is_no_repository_or_no_commit_is_said(tmp_path: Path) -> None:
    with pytest.raises(BranchError, match="is in no git repository: use --patch"):
        Branch(tmp_path, "b", "r").check()
    git(tmp_path, "init", "--quiet")
    with pytest.raises(BranchError, match="has no commit yet"):
        Branch(tmp_path, "b", "r").check()
