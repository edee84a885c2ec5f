"""What is sent: the instruction, the files, and a form that cannot be mistaken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from tasks.edits.blocks import MARK, block, boundary_for
from tasks.edits.prompt import PromptError, messages_for
from tasks.edits.source import source_file

A_PY = source_file("src/a b.py", b"x = 1\r\ny = 2")


def test_the_user_message_is_the_instruction_and_then_the_blocks() -> None:
    boundary = boundary_for([A_PY], "rename x")

    system, user = messages_for([A_PY], "  rename x\n")

    assert (system.role, user.role) == ("system", "user")
    assert user.content == (
        f'rename x\n\n====={boundary} file "src/a b.py"\nx = 1\ny = 2\n====={boundary} end\n'
    )


def test_the_system_message_shows_both_marker_lines() -> None:
    boundary = boundary_for([A_PY], "go")

    lines = messages_for([A_PY], "go")[0].content.split("\n")

    assert f'====={boundary} file "path/of/file"' in lines
    assert f"====={boundary} end" in lines


def test_the_same_request_is_the_same_bytes() -> None:
    assert messages_for([A_PY], "go") == messages_for([A_PY], "go")


@pytest.mark.parametrize("instruction", ["", "  \n\t"])
def test_an_empty_instruction_is_refused(instruction: str) -> None:
    with pytest.raises(PromptError, match="the instruction is empty: say what to change"):
        messages_for([A_PY], instruction)


def test_a_request_without_files_is_refused() -> None:
    with pytest.raises(PromptError, match="no files"):
        messages_for([], "go")


@pytest.mark.parametrize("path", ["a b.py", 'q"uote.py', "new\nline.py", "naïve.py", "b\\s.py"])
def test_a_block_marker_is_one_line_whatever_the_path(path: str) -> None:
    marker, content, end, rest = block("00000000", path, "x").split("\n")

    assert marker.startswith('=====00000000 file "')
    assert (content, end, rest) == ("x", "=====00000000 end", "")


def test_a_boundary_is_hex_and_depends_on_the_contents() -> None:
    boundary = boundary_for([A_PY])

    assert re.fullmatch(r"[0-9a-f]{8,16}", boundary)
    assert boundary != boundary_for([source_file("src/a b.py", b"other")])


@pytest.mark.parametrize("before", ["", "keep\n"])
def test_a_boundary_that_occurs_in_the_instruction_is_not_taken(before: str) -> None:
    first = boundary_for([A_PY])
    words = f"{before}{MARK}{first} end"

    assert boundary_for([A_PY], words) != first
    assert not any(
        line.startswith(MARK + boundary_for([A_PY], words)) for line in words.split("\n")
    )


def test_a_boundary_goes_on_when_all_lengths_of_one_digest_occur() -> None:
    words, taken = "", [boundary_for([A_PY])]
    while taken[-1].startswith(taken[0]):
        words += f"\n{MARK}{taken[-1]}"
        taken.append(boundary_for([A_PY], words))

    assert [len(boundary) for boundary in taken] == [*range(8, 17), 8]


@given(st.lists(st.text("0123456789abcdef=\n", max_size=40), min_size=1, max_size=3))
def test_no_line_starts_with_the_boundary(texts: list[str]) -> None:
    files = [source_file(f"{n}.txt", text.encode()) for n, text in enumerate(texts)]
    boundary = boundary_for(files)

    lines = [line for file in files for line in file.text.split("\n")]

    assert not any(line.startswith(MARK + boundary) for line in lines)
