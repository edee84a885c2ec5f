"""The patch of a whole tree, judged by git: it applies, and gives the bytes that applying gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tasks.edits.answer import Answer
from tasks.edits.checks import check
from tasks.edits.source import SourceFile, source_file
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
    patch = result.patch(force=True)
    if patch:
        git(root, "apply", "--check", "-", given=patch)
        git(root, "apply", "-", given=patch)
    for source, text in tree:
        assert (root / source.path).read_bytes() == source.bytes_of(text)
    assert Path(root, ".git").is_dir()
