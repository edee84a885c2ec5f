"""Refactor requests: found in the message, answered in its format, still compiling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from tasks.edits.blocks import boundary_for
from tasks.edits.prompt import messages_for
from tasks.edits.source import source_file
from tasks.local.simulator.refactor import blocks, changed, one_line, refactored
from tests.harness.edits import parse_answer

BOUNDARY = "0a1b2c3d"


def request(*files: tuple[str, str], instruction: str = "use asyncio") -> str:
    parts = [f"{instruction}\n\n"]
    for path, content in files:
        parts.append(f"====={BOUNDARY} file {json.dumps(path)}\n{content}====={BOUNDARY} end\n")
    return "".join(parts)


def test_every_file_comes_back_in_the_same_block_with_a_comment() -> None:
    answer = refactored(request(("src/a.py", "x = 1\n"), ("b b.js", "y\n")))

    assert answer is not None
    first, second = blocks(answer)
    assert (first.boundary, json.loads(first.path)) == (BOUNDARY, "src/a.py")
    assert first.content == "# Simulated refactor: use asyncio\nx = 1\n"
    assert json.loads(second.path) == "b b.js"
    assert second.content == "// Simulated refactor: use asyncio\ny\n"


def test_a_message_without_files_is_no_refactor_request() -> None:
    assert refactored("refactor this: =====0a1b2c3d end") is None


def test_an_empty_file_gets_its_comment() -> None:
    answer = refactored(request(("a.py", "")))

    assert answer is not None
    assert blocks(answer)[0].content == "# Simulated refactor: use asyncio\n"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.py", "#!/usr/bin/python\nx\n", "#!/usr/bin/python\n# S\nx\n"),
        ("a.py", "# -*- coding: latin-1 -*-\nx\n", "# -*- coding: latin-1 -*-\n# S\nx\n"),
        ("a.py", "#!/p\n# coding=utf8\nx\n", "#!/p\n# coding=utf8\n# S\nx\n"),
        ("a.py", "\ufeffx = 1\n", "\ufeff# S\nx = 1\n"),
        ("a.py", "x\r\ny\r\n", "# S\r\nx\r\ny\r\n"),
        ("a.html", "<p>\n", "<!-- S -->\n<p>\n"),
        ("a.svg", '<?xml version="1.0"?>\n<svg/>\n', '<?xml version="1.0"?>\n<!-- S -->\n<svg/>\n'),
        ("a.sql", "select 1;\n", "-- S\nselect 1;\n"),
        ("a.go", "package a\n", "// S\npackage a\n"),
        ("Makefile", "all:\n", "# S\nall:\n"),
        ("a.unheard", "text\n", "# S\ntext\n"),
    ],
)
def test_the_comment_goes_where_the_language_allows_it(name: str, before: str, after: str) -> None:
    found = changed(json.dumps(name), before, "")

    assert found == after.replace("S", "Simulated refactor:")


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations\nx: int = 1\n",
        '"""Doc."""\nfrom __future__ import annotations\n',
        "#!/usr/bin/env python\n# vim: set fileencoding=utf-8 :\nx = '\u00e9'\n",
        "\\\nx = 1\n",
        "\n\nx = 1\n",
        "",
    ],
)
def test_python_still_compiles(source: str) -> None:
    found = changed('"a.py"', source, one_line("do\nit \u2028 \x0c now"))

    compile(found, "a.py", "exec", dont_inherit=True)
    assert found.count("Simulated refactor") == 1


def test_a_comment_cannot_be_closed_by_the_instruction() -> None:
    assert changed('"a.md"', "text\n", "x --> y").startswith(
        "<!-- Simulated refactor: x - -> y -->"
    )


@given(st.text())
def test_the_instruction_fits_one_line(instruction: str) -> None:
    line = one_line(instruction)

    assert len(line) <= 60
    assert len(line.splitlines()) <= 1


@given(st.lists(st.text(st.characters(blacklist_characters="="), max_size=30), max_size=8))
def test_a_file_loses_nothing(lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines)

    answer = refactored(request(("a.txt", content)))

    assert answer is not None
    kept = blocks(answer)[0].content.split("\n")
    kept.remove("# Simulated refactor: use asyncio" + "\r" * content.split("\n")[0].endswith("\r"))
    assert "\n".join(kept) == content


def test_the_products_own_parser_reads_the_answer_to_its_own_prompt() -> None:
    files = [
        source_file("a.py", b"#!/usr/bin/env python\nprint('\xc3\xa9')"),
        source_file("empty.py", b""),
        source_file("sp ace.js", b"let a = 1;\r\n\r\n"),
    ]
    message = messages_for(files, "use asyncio")[-1].content

    answer = parse_answer(refactored(message) or "", files, boundary_for(files, "use asyncio"))

    assert answer.files == {
        "a.py": "#!/usr/bin/env python\n# Simulated refactor: use asyncio\nprint('\u00e9')",
        "empty.py": "# Simulated refactor: use asyncio",
        "sp ace.js": "// Simulated refactor: use asyncio\nlet a = 1;\n\n",
    }
