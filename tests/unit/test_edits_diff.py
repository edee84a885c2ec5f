"""The diff, judged by git itself: it applies, gives the same bytes, and reads as git writes it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tasks.edits.diff import git_quoted, unified_diff

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

ODD_PATHS = [
    "a.py",
    "deep/er/a.py",
    "with space.py",
    "with space/and naïve.py",
    'quo"te.py',
    "single'quote.py",
    "back\\slash.py",
    "new\nline.py",
    "tab\tand\x1bescape\x7f.py",
    "naïve/日本.py",
    " leading and trailing ",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "--quiet")
    return root


def git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    run = subprocess.run(
        ["git", *arguments],
        cwd=root,
        input=given,
        capture_output=True,
        check=False,
        timeout=30,
        env={**os.environ, **environment},
    )
    assert run.returncode in (0, 1) if arguments[0] == "diff" else run.returncode == 0, run.stderr
    return run.stdout


def applied(root: Path, path: str, before: bytes, after: bytes) -> bytes:
    """What `git apply` makes of `before`."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before)
    patch = unified_diff(path, before, after)
    git(root, "apply", "--check", "-", given=patch)
    git(root, "apply", "-", given=patch)
    result = file.read_bytes()
    file.unlink()
    return result


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_diff_applies_whatever_the_path(repository: Path, path: str) -> None:
    assert applied(repository, path, b"a\nb\nc\n", b"a\nB\nc\n") == b"a\nB\nc\n"


@pytest.mark.parametrize("path", ODD_PATHS)
def test_a_path_is_written_as_git_writes_it(repository: Path, path: str) -> None:
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"a\nb\n")
    git(repository, "add", "--", path)
    file.write_bytes(b"a\nB\n")

    by_git = git(repository, "diff", "--", path).split(b"\n")

    ours = unified_diff(path, b"a\nb\n", b"a\nB\n").split(b"\n")
    assert ours == [line for line in by_git if not line.startswith(b"index ")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\rb\rc\r", b"a\rB\rc\r"),
        (b"a\nb", b"a\nB"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"A\nb"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9\nx\n", b"caf\xe9\ny\xe9\n"),
        ("a\u2028b\x0c\x85c\n".encode(), "a\u2028b\x0c\x85d\n".encode()),
        (b"a\n", b""),
        (b"-- x\n", b"++ y\n"),
        (b"".join(b"%d\n" % n for n in range(90)), b"".join(b"%d\n" % n for n in range(5, 99, 2))),
    ],
)
def test_a_diff_gives_the_same_bytes(repository: Path, before: bytes, after: bytes) -> None:
    assert applied(repository, "a.py", before, after) == after


LINES = st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\n", b"\\ x\n", b"\xe9\r", b"c"]), max_size=9)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(LINES.map(b"".join).filter(bool), LINES.map(b"".join))
def test_any_change_applies_and_gives_the_same_bytes(
    repository: Path, before: bytes, after: bytes
) -> None:
    if before != after:
        assert applied(repository, "x y.py", before, after) == after


def test_no_change_is_no_diff() -> None:
    assert unified_diff("a.py", b"a\n", b"a\n") == b""


def test_an_emptied_file_is_an_empty_span_before_its_first_line() -> None:
    header = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"

    assert unified_diff("a.py", b"x\ny\n", b"") == header + b"@@ -1,2 +0,0 @@\n-x\n-y\n"


def test_a_plain_path_is_not_quoted() -> None:
    assert git_quoted("a/with space.py") == "a/with space.py"
    assert git_quoted("a/café") == '"a/caf\\303\\251"'
