"""An answer read as it comes: each file is ready with its last character; one fault is mended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tasks.edits.answer import AnswerError
from tasks.edits.blocks import block, boundary_for, none_marker
from tasks.edits.reading import FILE_READY, AnswerReading
from tasks.edits.source import source_file
from worker.attempt.reading import Unusable

FILES = [source_file("a.py", b"a = 1\n"), source_file("b b.py", b"b = 1\n")]
B = boundary_for(FILES, "x")
FIRST, SECOND = block(B, "a.py", "a = 2\n"), block(B, "b b.py", "b = 2\n")
BROKEN = FIRST + SECOND.rpartition("=====")[0]


def read(text: str) -> AnswerReading:
    reading = AnswerReading(FILES, B)
    reading.take(text)
    reading.close()
    return reading


def broken(text: str) -> Unusable:
    with pytest.raises(Unusable) as caught:
        read(text).finish()
    return caught.value


@given(st.data())
def test_a_mark_stands_exactly_behind_its_file_however_the_text_is_cut(data: st.DataObject) -> None:
    text = f"Here.\n{FIRST}\nAnd:\n{SECOND.removesuffix(chr(10))}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    reading, at, found = AnswerReading(FILES, B), 0, []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += [(at + m.upto, m.what, m.name) for m in reading.take(text[start:end])]
        at = end
    found += [(at + m.upto, m.what, m.name) for m in reading.close()]

    behind = text.index("\nAnd:")
    assert found == [(behind, FILE_READY, "a.py"), (len(text), FILE_READY, "b b.py")]


def test_the_result_has_the_files_and_the_notes() -> None:
    assert read("Hello.\n" + FIRST).finish() == {"files": {"a.py": "a = 2\n"}, "notes": "Hello."}


def test_an_answer_may_say_that_nothing_changes() -> None:
    assert read(f"Fine as it is.\n{none_marker(B)}\n").finish() == {
        "files": {},
        "notes": "Fine as it is.",
    }


def test_files_before_a_fault_in_the_same_piece_are_marked() -> None:
    reading = AnswerReading(FILES, B)
    marks = reading.take(FIRST + f"====={B} end\n")
    assert [mark.name for mark in marks] == ["a.py"]
    assert reading.take(SECOND) == ()


def test_a_correction_names_the_fault_and_what_is_kept() -> None:
    error = broken(BROKEN)
    assert "line 5 of the answer: the block of b b.py is not closed" in str(error)
    assert str(error) in error.correction
    assert "used as they are: a.py." in error.correction
    assert none_marker(B) in error.correction
    assert "No file of it could be used" in broken("Hello.").correction


def test_a_corrected_answer_keeps_what_was_ready() -> None:
    again = broken(BROKEN).again
    again.take(SECOND)
    assert again.finish()["files"] == {"a.py": "a = 2\n", "b b.py": "b = 2\n"}


def test_a_file_that_comes_again_with_the_correction_replaces_the_first() -> None:
    again = broken(BROKEN).again
    again.take(block(B, "a.py", "a = 3\n") + SECOND)
    assert again.finish()["files"]["a.py"] == "a = 3\n"


def test_a_correction_may_say_that_nothing_is_missing() -> None:
    again = broken(FIRST + f"====={B} end\n").again
    again.take(none_marker(B))
    again.close()
    assert again.finish()["files"] == {"a.py": "a = 2\n"}


def test_a_correction_that_breaks_the_form_is_final() -> None:
    again = broken(BROKEN).again
    again.take("Sorry.")
    with pytest.raises(AnswerError, match="there is no file block in it"):
        again.finish()


@pytest.mark.parametrize("path", ["A.py", "./a.py", "b b.py ", "../a.py", "/a.py", "a.py/"])
def test_a_path_that_only_looks_like_a_sent_one_is_none(path: str) -> None:
    error = broken(block(B, path, "a = 2\n"))
    assert "is not one of the files that were sent" in str(error)
