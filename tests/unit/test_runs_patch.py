"""The patch of a whole tree, judged by git: it applies, and gives the bytes that applying gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tasks.edits.answer import Answer
from tasks.edits.checks import check
from tasks.edits.source import SourceFile, read_sources, source_file
from tasks.runs.branch import Branch
from tests.harness.edits import patch
from tests.harness.refactoring import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = st.text(st.sampled_from("ab \"'\\\n\t#é日-=@$*?[~"), min_size=1, max_size=6).filter(
    lambda name: name.strip() != "" and name not in (".", "..")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
LINES = st.lists(st.sampled_from(["", "x", "+ y", "-- z", "é", "\\ q", "@@ -1 +1 @@"]), max_size=6)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[SourceFile, str]]:
    """Files of every form, each with what an answer makes of it."""
    found: list[tuple[SourceFile, str]] = []
    for path in draw(st.lists(PATHS, min_size=1, max_size=6, unique=True)):
        ending = draw(st.sampled_from(["\n", "\r\n"]))
        mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
        text = ending.join([*draw(LINES), "end"]) + draw(st.sampled_from(["", ending]))
        source = source_file(path, mark + text.encode())
        found.append((source, source.text_of(draw(LINES) or ["one"])))
    taken = {source.path for source, _ in found}
    return [(s, t) for s, t in found if not any(p.startswith(s.path + "/") for p in taken)]


@settings(max_examples=60, deadline=None)
@given(trees())
def test_git_applies_the_patch_of_any_tree(
    tmp_path_factory: pytest.TempPathFactory, tree: list[tuple[SourceFile, str]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    git(root, "init", "--quiet")
    for source, _ in tree:
        (root / source.path).parent.mkdir(parents=True, exist_ok=True)
        (root / source.path).write_bytes(source.bytes_of(source.text))
    sources = [source for source, _ in tree]
    result = check(sources, Answer({source.path: text for source, text in tree}), root)
    assert not result.refused
    given = patch(result)
    if given:
        git(root, "apply", "--check", "-", given=given)
        git(root, "apply", "-", given=given)
    for source, text in tree:
        assert (root / source.path).read_bytes() == source.bytes_of(text)
    assert Path(root, ".git").is_dir()


@pytest.mark.parametrize("given", ["link.py", "linked/a.py"])
def test_git_takes_the_change_of_a_file_that_was_named_by_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "somebody@example.org")
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.py").write_text("a = 1\n")
    (tmp_path / "link.py").symlink_to("p/a.py")
    (tmp_path / "linked").symlink_to("p")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    sources = read_sources([given], tmp_path, 1000)
    result = check(sources, Answer({sources[0].path: "a = 2\n"}), tmp_path)

    git(tmp_path, "apply", "--check", "-", given=patch(result))

    placed = Branch(tmp_path, "new", "run1").place(result.changes, "Change it")
    assert placed.refused == ()
    assert git(tmp_path, "show", "new:p/a.py") == "a = 2\n"
