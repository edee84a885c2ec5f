"""What a run sends: directories and globs as git sees them; what is left out has a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tasks.edits.source import SourceError, gather_sources
from tasks.runs.ignore import Ignores
from tasks.runs.plan import kinds_of
from tasks.runs.select import Selection, select

TREE = {
    ".gitignore": "*.log\nbuild/\n/only-top.txt\n!keep.log\nvendor/**/tests\n",
    "app.py": "a\n",
    "debug.log": "x",
    "keep.log": "x",
    "only-top.txt": "x",
    "build/out.py": "x",
    "src/.gitignore": "generated.py\n!debug.log\nsub/\n",
    "src/a.py": "a\n",
    "src/debug.log": "x",
    "src/generated.py": "x",
    "src/only-top.txt": "x",
    "src/sub/a.py": "x",
    "src/deep/.gitignore": "*\n!*.md\n",
    "src/deep/a.py": "x",
    "src/deep/a.md": "x",
    "vendor/x/y/tests/t.py": "x",
    "vendor/x/y/code.py": "x",
    "docs/excluded.txt": "x",
    "naïve dir/ä\n.py": "x",
}


def grow(root: Path, tree: dict[str, str]) -> Path:
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def git_sees(root: Path) -> list[str]:
    listed = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        listed, cwd=root, capture_output=True, check=True, env={**os.environ, **environment}
    )
    return sorted(done.stdout.decode().split("\0")[:-1])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("excluded.*\n")
    return tmp_path


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
def test_a_directory_is_what_git_sees_of_it(repository: Path) -> None:
    grow(repository, TREE)
    assert sorted(select(["."], repository).found) == git_sees(repository)
    assert set(select(["src"], repository).found) == {
        name for name in git_sees(repository) if name.startswith("src/")
    }


NAMES = st.sampled_from(["a", "b.py", "c.log", "d d", "#e"])
PATTERNS = st.lists(
    st.sampled_from(
        [
            *("*", "!*/", "!*.py", "*.log", "a/", "/a", "!a", "b.py", "a/**", "**/b.py", "/*"),
            *("!/a/", "d\\ d", "\\#e", "# a", "", "a/*/b.py", "[bc]*", "?", " "),
        ]
    ),
    max_size=4,
)


@needs_git
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(["", "a", "d d", "a/a"]), PATTERNS, max_size=3),
)
def test_any_patterns_mean_what_they_mean_to_git(
    tmp_path_factory: pytest.TempPathFactory,
    paths: list[list[str]],
    patterns: dict[str, list[str]],
) -> None:
    root = tmp_path_factory.mktemp("any")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    for parts in paths:
        place = root.joinpath(*parts)
        if not any(parent.is_file() for parent in place.parents) and not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")
    for directory, lines in patterns.items():
        if (root / directory).is_dir():
            (root / directory / ".gitignore").write_text("\n".join(lines))
    ignores = Ignores(root)
    kept = sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
        and ".git" not in path.relative_to(root).parts
        and not ignores.ignores(path, directory=False)
    )
    assert kept == git_sees(root)


def test_parents_of_the_root_have_a_say_up_to_the_repository(repository: Path) -> None:
    grow(repository, TREE)
    assert "debug.log" in select(["."], repository / "src").found
    assert "only-top.txt" in select(["."], repository / "src").found
    grow(repository, {".gitignore": "a.py\n"})
    assert "a.py" not in select(["."], repository / "src").found


def test_without_a_repository_its_gitignore_counts_all_the_same(tmp_path: Path) -> None:
    grow(tmp_path, {".gitignore": "*.log\n", "a.log": "x", "a.py": "x"})
    assert select(["."], tmp_path).found == (".gitignore", "a.py")


def test_globs_find_files_and_respect_what_is_ignored(repository: Path) -> None:
    grow(repository, TREE)
    assert select(["**/*.py"], repository).found == (
        "app.py",
        "naïve dir/ä\n.py",
        "src/a.py",
        "vendor/x/y/code.py",
    )
    assert select(["src/*"], repository).found == ("src/a.py", "src/debug.log", "src/only-top.txt")


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    grow(tmp_path, {"a[1].py": "x", "a1.py": "x"})
    assert select(["a[1].py"], tmp_path) == Selection(("a[1].py",))


def test_a_named_file_is_sent_although_it_is_ignored_and_not_found_twice(repository: Path) -> None:
    grow(repository, TREE)
    chosen = select(["src/generated.py", "src/a.py", "src"], repository)
    assert chosen.named == ("src/generated.py", "src/a.py")
    assert "src/a.py" not in chosen.found


@pytest.mark.parametrize(
    ("given_name", "says"),
    [
        ("empty", "empty: there is no file in it that git does not ignore"),
        ("build", "build: git ignores it; name its files to send them"),
        ("*.rs", "*.rs: no file matches"),
    ],
)
def test_what_leads_to_nothing_is_said(repository: Path, given_name: str, says: str) -> None:
    grow(repository, TREE)
    (repository / "empty").mkdir()
    with pytest.raises(SourceError) as caught:
        select([given_name], repository)
    assert caught.value.problems == (says,)


def test_secrets_are_skipped_unless_they_are_named(tmp_path: Path) -> None:
    grow(
        tmp_path, {".env": "x", ".env.example": "x", "server.pem": "x", "id_rsa": "x", "a.py": "x"}
    )
    chosen = select([".", "server.pem"], tmp_path)
    assert chosen.named == ("server.pem",)
    assert chosen.found == (".env.example", "a.py")
    assert {(each.path, each.reason) for each in chosen.skipped} == {
        (name, "may hold secrets; name it to send it") for name in (".env", "id_rsa", "server.pem")
    }


def test_links_and_repositories_inside_are_not_followed(repository: Path) -> None:
    grow(repository, {"a.py": "x", "inner/b.py": "x", "dir/c.py": "x"})
    subprocess.run(["git", "init", "--quiet", repository / "inner"], check=True)
    (repository / "link.py").symlink_to("a.py")
    (repository / "linked").symlink_to("dir")
    (repository / "loop").symlink_to(".")
    chosen = select(["."], repository)
    assert chosen.found == ("a.py", "dir/c.py")
    assert [(s.path, s.reason) for s in chosen.skipped] == [
        ("inner", "is a repository of its own; name it to send it")
    ]


@pytest.mark.parametrize("name", ["linked", "linked/sub", "linked/**/*.py", "*/sub/*.py"])
def test_a_link_to_a_directory_is_the_directory_it_leads_to(tmp_path: Path, name: str) -> None:
    grow(tmp_path, {"dir/sub/c.py": "x"})
    (tmp_path / "linked").symlink_to("dir")
    assert select([name], tmp_path).found == ("dir/sub/c.py",)


def test_a_link_to_a_directory_outside_gives_nothing(tmp_path: Path) -> None:
    grow(tmp_path, {"root/a.py": "x", "secret/b.py": "x"})
    (tmp_path / "root/linked").symlink_to("../secret")
    chosen = select(["linked"], tmp_path / "root")
    gathered = gather_sources(chosen.named, chosen.found, tmp_path / "root", 1000)
    assert gathered.files == ()
    assert dict(gathered.left_out) == {
        "linked/b.py": "leads outside the root through a symbolic link"
    }


def test_what_was_found_and_can_not_be_sent_is_left_out_with_the_reason(tmp_path: Path) -> None:
    grow(tmp_path, {"a.py": "x\n", "empty.py": "", "gone.py": "x"})
    (tmp_path / "binary.dat").write_bytes(b"\0\1")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "mixed.py").write_bytes(b"a\r\nb\n")
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(50_000_000)
    chosen = select(["."], tmp_path)
    (tmp_path / "gone.py").unlink()
    gathered = gather_sources(chosen.named, chosen.found, tmp_path, 400_000)
    assert [file.path for file in gathered.files] == ["a.py"]
    reasons = dict(gathered.left_out)
    assert reasons["binary.dat"] == "is a binary file"
    assert reasons["empty.py"] == "is empty: there is nothing to change"
    assert reasons["gone.py"] == "vanished before it was read"
    assert reasons["huge.txt"].startswith("has 50000000 bytes, over the limit of 400000")
    assert reasons["latin.txt"].startswith("is not utf-8 text (byte 0xe9 in line 1)")
    assert reasons["mixed.py"].startswith("mixes line endings")


def test_a_named_file_that_can_not_be_sent_is_a_problem(tmp_path: Path) -> None:
    grow(tmp_path, {"a.py": "x\n", "empty.py": ""})
    with pytest.raises(SourceError, match="is empty"):
        gather_sources(["empty.py"], ["a.py"], tmp_path, 1000)


def test_a_directory_that_is_taken_back_in_keeps_what_is_ignored_in_it(tmp_path: Path) -> None:
    grow(tmp_path, {".gitignore": "build\n!src\n", "src/build/x.txt": "x", "src/a.txt": "x"})
    assert select(["."], tmp_path).found == (".gitignore", "src/a.txt")


def test_an_empty_name_is_not_the_whole_directory(tmp_path: Path) -> None:
    grow(tmp_path, {"a.py": "x\n"})
    with pytest.raises(SourceError, match="an empty name is no file"):
        select([""], tmp_path)


def test_reasons_that_differ_in_their_figures_are_one_line() -> None:
    large = "has {} bytes, over the limit of 400000; leave it out, or raise max_file_bytes"
    left_out = [("one.bin", "is a binary file"), ("b.py", "is the same file as a.py; name it once")]
    left_out += [(f"{size}.txt", large.format(size)) for size in (400_001, 500_000, 7_654_321)]
    left_out += [("two.txt", "mixes line endings (3 LF, 1 CRLF); make them one kind first")]
    left_out += [("c.py", "is the same file as d.py; name it once")]
    assert kinds_of(left_out) == [
        f"400001.txt {large.format(400_001)}, and 2 more like it",
        "b.py is the same file as a.py; name it once, and 1 more like it",
        "one.bin is a binary file",
        "two.txt mixes line endings (3 LF, 1 CRLF); make them one kind first",
    ]
