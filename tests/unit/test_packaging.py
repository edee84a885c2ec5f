"""The image and the lock file it is built from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "worker" / "requirements.lock").read_text("utf-8")
DOCKERFILE = (ROOT / "worker" / "Dockerfile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def entries() -> dict[str, str]:
    """Each locked package with everything that belongs to it."""
    joined = LOCK.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return {line.split("==")[0]: line for line in lines}


def required() -> list[str]:
    wanted = PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["build"]
    return [re.split(r"[\[<>=~!; ]", line)[0].lower().replace("_", "-") for line in wanted]


@pytest.mark.parametrize("name", required())
def test_every_dependency_is_locked(name: str) -> None:
    assert name in entries()


@pytest.mark.parametrize("name", entries())
def test_every_locked_package_has_one_version_and_its_hashes(name: str) -> None:
    line = entries()[name]

    assert re.match(r"[a-z0-9-]+==[^ ]+ ", line)
    assert re.search(r" --hash=sha256:[0-9a-f]{64}\b", line)


def test_the_lock_names_no_address_and_no_other_source() -> None:
    assert "://" not in LOCK
    assert not re.search(r"--(extra-)?index|--find-links|file:|^-e|git\+", LOCK, re.MULTILINE)


def test_the_image_is_built_from_the_lock_alone() -> None:
    installs = re.findall(r"pip install (.*)$", DOCKERFILE, re.MULTILINE)

    assert installs == [
        "--require-hashes --requirement worker/requirements.lock",
        "--no-deps --no-build-isolation .",
    ]


def test_the_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (.*)$", DOCKERFILE.rpartition("\nFROM ")[2], re.MULTILINE)

    assert users == ["10001"]


def test_what_the_image_is_built_from_is_not_ignored() -> None:
    kept = set(re.findall(r"^!(.*?)/?$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))

    assert kept == {"pyproject.toml", "README.md", "LICENSE", "settings", "worker", "tasks"}
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= kept


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
