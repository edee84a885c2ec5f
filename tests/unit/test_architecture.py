"""docs/architecture.md names every room of the repository, and no page what is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")


@pytest.mark.parametrize("top", ["worker", "tasks"])
def test_the_map_has_every_room(top: str) -> None:
    (rooms,) = re.findall(rf"^{top}/ .*\n((?:  .*\n)+)", TEXT, re.MULTILINE)
    named = set(re.findall(r"^  (\w+)/", rooms, re.MULTILINE))
    assert named == {path.parent.name for path in (ROOT / top).glob("*/__init__.py")}


def test_what_the_page_names_is_there() -> None:
    files = re.findall(r"`((?:worker|tasks)/[\w/]+\.(?:py|lua))`", TEXT)
    modules = re.findall(r"`((?:worker|tasks)\.[\w.]+)`", TEXT)
    assert files
    assert modules
    for name in (*files, *(f"{module.replace('.', '/')}.py" for module in modules)):
        assert (ROOT / name).is_file(), name


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_tests_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"`((?:unit|contract|endtoend)/\w+\.py)`", page.read_text("utf-8"))
    assert not [name for name in named if not (ROOT / "tests" / name).is_file()]
