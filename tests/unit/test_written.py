"""What the documents name is there: commands, options, files, settings, targets of make, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from settings.environment import ignored
from tests.harness.commands import called, documents, in_document, problem

ROOT = Path(__file__).parents[2]
DOCUMENTS = pytest.mark.parametrize("document", documents(ROOT), ids=lambda path: path.name)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(
    r"\b(?:tests|docs|tasks|worker|settings)/[\w./*-]*\w[\w*]*\.(?:py|md|yaml|lua)\b"
)
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_HINT = re.compile(r"`(longstream [^`{}]+)`")


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@DOCUMENTS
def test_every_command_line_is_one_the_program_takes(document: Path) -> None:
    problems = {
        " ".join(call): said
        for call in in_document(text_of(document))
        if (said := problem(call, whole=False))
    }
    assert problems == {}


def test_every_command_a_message_advises_is_one_the_program_takes() -> None:
    problems = {}
    for top in ("settings", "worker", "tasks"):
        for path in (ROOT / top).rglob("*.py"):
            # A string that goes on in the next line is one string.
            whole = re.sub(r'"\s*\n\s*f?"', "", text_of(path))
            for hint in _HINT.findall(whole):
                for call in called(" ".join(hint.split())):
                    if said := problem(call, whole=False):
                        problems[f"{path.name}: {hint}"] = said
    assert problems == {}


@DOCUMENTS
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in _LINK.findall(text_of(document)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        place = document.parent / name if name else document
        assert place.exists(), target
        if anchor:
            assert anchor in map(_anchor, _HEADING.findall(text_of(place))), target


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@DOCUMENTS
def test_every_file_that_is_named_exists(document: Path) -> None:
    for name in _PATH.findall(text_of(document)):
        assert any(ROOT.glob(name)), name


@DOCUMENTS
def test_every_target_of_make_exists(document: Path) -> None:
    targets = set(_TARGET.findall(text_of(ROOT / "Makefile")))
    named = re.findall(r"(?:^|`)make ([a-z-]+)", text_of(document), re.MULTILINE)
    assert set(named) - targets == set()


@DOCUMENTS
def test_every_variable_is_one_that_is_read(document: Path) -> None:
    named = re.findall(r"LONGSTREAM_[A-Z_]*[A-Z]", text_of(document))
    assert ignored(dict.fromkeys(named, "x")) == []


def test_the_index_has_every_document() -> None:
    readme = set(_LINK.findall(text_of(ROOT / "README.md")))
    assert {f"docs/{path.name}" for path in (ROOT / "docs").iterdir()} - readme == set()
