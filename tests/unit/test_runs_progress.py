"""What the log of a job means: files are ready one by one, and a restart takes them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.runs.progress import Ended, Ready
from tests.harness.refactoring import Refactoring, began, cut, said, sealed
from worker.log.entries import Tokens
from worker.log.view import End, Status, Thinking

FILES = {"a.py": b"a = 1\n", "b.py": b"b = 1\n"}


@pytest.fixture
def made(tmp_path: Path) -> Refactoring:
    return Refactoring(tmp_path, FILES)


def events(made: Refactoring, *items: object) -> list[Ready | Ended]:
    return [event for item in items for event in made.progress.take(item)]  # type: ignore[arg-type]


def test_a_file_is_ready_before_the_answer_ends(made: Refactoring) -> None:
    text = made.answer(a="a = 2\n")
    assert events(made, began(), said(text[:-1])) == []
    assert made.view.writing == "a.py"
    assert events(made, said(text[-1], len(text) - 1)) == [Ready("job", "a.py", "a = 2\n")]
    assert made.view.writing == "b.py"


def test_a_restart_takes_back_what_was_ready_and_says_only_what_differs(made: Refactoring) -> None:
    first = made.answer(a="a = 2\n", b="b = 2\n")
    events(made, began(), said(first))
    assert events(made, cut(), began(2, "restart")) == []
    assert made.view.ready == {}
    second = made.answer(a="a = 2\n", b="b = 3\n")
    assert events(made, said(second)) == [Ready("job", "b.py", "b = 3\n", again=True)]
    (end,) = events(made, sealed())
    assert isinstance(end, Ended)
    assert end.files == {"a.py": "a = 2\n", "b.py": "b = 3\n"}


def test_a_cut_keeps_the_files_before_it(made: Refactoring) -> None:
    text = made.answer(a="a = 2\n")
    events(made, began(), said(text), said("junk", len(text)), cut(len(text)))
    assert made.view.ready == {"a.py": "a = 2\n"}


def test_an_answer_that_is_corrected_keeps_its_files(made: Refactoring) -> None:
    broken = made.answer(a="a = 2\n") + made.answer(b="b = 2\n").rpartition("=====")[0]
    events(made, began(), said(broken), began(2, "repair"))
    assert made.view.ready == {"a.py": "a = 2\n"}
    half = made.answer(b="b = 2\n")[:20]
    events(made, said(half, len(broken)), cut(len(broken)), began(3, "repair"))
    whole = made.answer(b="b = 3\n")
    (ready, end) = events(made, said(whole, len(broken)), sealed())
    assert ready == Ready("job", "b.py", "b = 3\n")
    assert isinstance(end, Ended)
    assert set(end.files) == {"a.py", "b.py"}


def test_a_last_marker_without_a_newline_counts_when_the_answer_is_whole(made: Refactoring) -> None:
    text = made.answer(a="a = 2\n").removesuffix("\n")
    events(made, began(), said(text))
    assert [type(each) for each in events(made, sealed())] == [Ready, Ended]


def test_a_cut_answer_gives_what_was_ready(made: Refactoring) -> None:
    text = made.answer(a="a = 2\n") + made.answer(b="b = 2\n")[:30]
    *_, end = events(made, began(), said("Note.\n" + text), sealed("incomplete", "length"))
    assert end == Ended("job", "incomplete", "length", {"a.py": "a = 2\n"})


def test_the_view_tells_what_a_table_shows(made: Refactoring) -> None:
    view = made.view
    events(made, Status(state="waiting", detail="place 3", place=3))
    assert (view.state, view.place) == ("waiting", 3)
    events(made, began(), Thinking(cursor="1-1", tokens=70))
    assert (view.state, view.key, view.thinking) == ("running", "k", 70)
    usage = Tokens(input=1, output=2)
    end = End(cursor="1-9", outcome="failed", length=0, digest="", attempts=1, usage=usage)
    events(made, end)
    assert (view.state, view.outcome, view.usage) == ("ended", "failed", usage)


def test_what_a_job_takes_counts_what_was_sent_thought_and_thrown_away(made: Refactoring) -> None:
    view = made.view
    view.prompt = 1000
    assert view.tokens == Tokens(), "nothing is sent yet"
    events(made, began(), Thinking(cursor="1-1", tokens=50), said("x" * 400))
    assert view.tokens == Tokens(input=1000, output=150, reasoning=50)
    events(made, began(2, "reattach"), Thinking(cursor="2-1", tokens=60))
    assert view.tokens == Tokens(input=1000, output=160, reasoning=60)
    events(made, cut(), began(3, "restart"), Thinking(cursor="3-1", tokens=5), said("y" * 40))
    assert view.tokens == Tokens(input=2000, output=160 + 15, reasoning=65)
    events(made, began(4, "repair"), said("z" * 40, 40))
    assert view.tokens == Tokens(input=3000, output=160 + 25, reasoning=65)
    view.taken = Tokens(input=7)
    assert view.tokens == Tokens(input=7)
