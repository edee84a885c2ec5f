"""What a run sends: directories and globs as git sees them; what is left out has a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tasks.edits.source import SourceError, gather_sources
from tasks.runs.ignore import Ignores
from tasks.runs.plan import kinds_of
from tasks.runs.select import Selection, select
from tests.harness.edits import ordinary_user
from tests.harness.refactoring import git

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


@pytest.fixture(autouse=True, scope="module")
def nobody() -> Iterator[None]:
    """A user without any configuration of git."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("XDG_CONFIG_HOME", os.devnull)
        yield


def git_sees(root: Path) -> list[str]:
    """But what begins with a dot."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=root, capture_output=True, check=True)
    names = done.stdout.decode().split("\0")[:-1]
    return sorted(name for name in names if not f"/{name}".count("/."))


SECRET = "may hold secrets; name it to send it"


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
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
        and not ignores.ignores(path, directory=False)
    )
    assert kept == git_sees(root)


def test_parents_of_the_root_have_a_say_up_to_the_repository(repository: Path) -> None:
    grow(repository, TREE)
    assert "debug.log" in select(["."], repository / "src").found
    assert "only-top.txt" in select(["."], repository / "src").found
    grow(repository, {".gitignore": "a.py\n"})
    assert "a.py" not in select(["."], repository / "src").found


@needs_git
def test_what_git_tracks_is_never_ignored(repository: Path) -> None:
    grow(repository, TREE)
    tracked = ["debug.log", "build/out.py", "src/sub/a.py"]
    subprocess.run(["git", "add", "--force", *tracked], cwd=repository, check=True)
    grow(repository, {"build/other.py": "x"})
    assert sorted(select(["."], repository).found) == git_sees(repository)
    assert set(tracked) <= set(select(["."], repository).found)
    assert select(["build"], repository).found == ("build/out.py",)


@needs_git
@pytest.mark.parametrize("how", ["configured", "in the home", "by default"])
def test_what_the_user_ignores_everywhere_is_ignored_unless_the_tree_says_otherwise(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any, how: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "config"))
    name = {"configured": "my ignores", "in the home": "x/ignores"}.get(how, ".config/git/ignore")
    grow(home, {name: "*.swp\n*.bak\n/only-top.py\nexcluded.py\n", "config": ""})
    value = {"configured": str(home / name), "in the home": f"~/{name}"}.get(how)
    if value:
        setting = ["--file", str(home / "config"), "core.excludesFile", value]
        subprocess.run(["git", "config", *setting], check=True)
    tree = dict.fromkeys(("a.py", "a.swp", "b.bak", "only-top.py", "src/only-top.py"), "x")
    grow(repository, tree | {"excluded.py": "x", ".gitignore": "!b.bak\n"})
    (repository / ".git/info/exclude").write_text("!excluded.py\n")
    found = ["a.py", "b.bak", "excluded.py", "src/only-top.py"]
    assert sorted(select(["."], repository).found) == found == git_sees(repository)
    subprocess.run(["git", "config", "core.excludesFile", ""], cwd=repository, check=True)
    assert sorted(select(["."], repository).found) == git_sees(repository)
    assert "a.swp" in git_sees(repository)


@needs_git
def test_what_a_repository_excludes_holds_in_its_worktrees(repository: Path) -> None:
    grow(repository, {"a.py": "x"})
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "first")
    git(repository, "worktree", "add", "--quiet", "other")
    grow(repository / "other", {"excluded.txt": "x", "b.py": "x"})
    assert select(["."], repository / "other").found == ("a.py", "b.py")


def test_without_git_its_files_count_all_the_same(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    home = grow(tmp_path_factory.mktemp("home"), {"git/ignore": "*.swp\n"})
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    grow(repository, {"a.py": "x", "a.swp": "x", "excluded.txt": "x"})
    assert select(["."], repository).found == ("a.py",)


def test_a_user_without_a_home_has_no_ignores_of_his_own(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    grow(repository, {"a.py": "x", "excluded.txt": "x"})
    assert select(["."], repository).found == ("a.py",)


@needs_git
def test_a_gitignore_that_is_a_link_says_nothing(repository: Path) -> None:
    grow(repository, {"a.py": "x", "b.log": "x", "rules": "*.log\n"})
    (repository / ".gitignore").symlink_to("rules")
    assert sorted(select(["."], repository).found) == git_sees(repository)
    assert "b.log" in git_sees(repository)


def test_without_a_repository_its_gitignore_counts_all_the_same(tmp_path: Path) -> None:
    grow(tmp_path, {".gitignore": "*.log\n", "a.log": "x", "a.py": "x"})
    assert select(["."], tmp_path).found == ("a.py",)


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
    assert chosen.found == ("a.py",)
    assert {each.path for each in chosen.skipped if each.reason == SECRET} == {
        *(".env", "id_rsa", "server.pem")
    }
    assert select([".env*"], tmp_path).found == (".env.example",)


def test_what_begins_with_a_dot_is_sent_only_if_it_is_named(repository: Path) -> None:
    tree = {".gitignore": "*.log\n", ".editorconfig": "x", "src/.flake8": "x", "src/a.py": "x"}
    tree |= {".github/ci.yml": "x", ".github/.hidden": "x", ".env/lib/b.py": "x", ".log": "x"}
    grow(repository, tree)
    chosen = select(["."], repository)
    assert chosen.found == ("src/a.py",)
    left = {each.path: each.reason for each in chosen.skipped}
    hidden = [".editorconfig", ".env", ".github", ".gitignore", "src/.flake8"]
    assert left == dict.fromkeys(hidden, "begins with a dot; name it to send it")
    assert select([".gitignore", ".github"], repository).found == (".github/ci.yml",)
    assert select([".gitignore"], repository).named == (".gitignore",)
    assert select([".*", ".github/*.yml"], repository).found == (
        *(".editorconfig", ".gitignore", ".github/ci.yml"),
    )
    assert select(["**/*"], repository).found == ("src/a.py",)


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


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    with ordinary_user() as directory:
        yield directory


def test_a_directory_that_can_not_be_looked_into_is_skipped(unprivileged: Path) -> None:
    grow(unprivileged, {"a.py": "x", "locked/b.py": "x", "closed/c.py": "x"})
    (unprivileged / "locked").chmod(0)
    (unprivileged / "closed").chmod(0o444)
    try:
        chosen = select([".", "**/*.py"], unprivileged)
        gathered = gather_sources((), chosen.found, unprivileged, 1000)
        assert [file.path for file in gathered.files] == ["a.py"]
        assert gathered.left_out == (("closed/c.py", "cannot be read: permission denied"),)
        assert (chosen.skipped[-1].path, chosen.skipped[-1].reason) == (
            *("locked", "cannot be listed: permission denied"),
        )
        named = select(["locked/b.py"], unprivileged).named
        with pytest.raises(SourceError, match=r"locked/b.py: cannot be read: permission denied"):
            gather_sources(named, (), unprivileged, 1000)
        assert select(["."], unprivileged / "locked").found == ()
    finally:
        (unprivileged / "locked").chmod(0o700)
        (unprivileged / "closed").chmod(0o700)


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
    assert select(["."], tmp_path).found == ("src/a.txt",)


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
