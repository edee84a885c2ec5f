from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import msgspec
import pytest

from tasks.cli.sinks import JsonSink, PipeSink, line_of
from worker.log.entries import Tokens
from worker.log.view import Attempt, Cut, End, Followed, Note, Status, Text, Thinking

END = End(cursor="2-9", outcome="completed", length=8, digest="d", attempts=2)
ATTEMPT = Attempt(
    cursor="2-0", attempt=2, mode="restart", worker="w", key="main", reason="worker v died"
)


def text(offset: int, text: str) -> Text:
    return Text(cursor="1-1", offset=offset, text=text)


def restarted(second: str) -> list[Followed]:
    """An answer of which 8 characters came before it began again."""
    return [
        text(0, "one é tw"),
        Cut(cursor="2-0", offset=0),
        ATTEMPT,
        text(0, second),
        End(cursor="2-9", outcome="completed", length=len(second), digest="d", attempts=2),
    ]


@pytest.fixture
def pipe() -> Iterator[tuple[TextIO, int]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        yield out, reading
    os.close(reading)


def test_a_pipe_gets_the_text_and_nothing_else(
    pipe: tuple[TextIO, int], capfd: pytest.CaptureFixture[str]
) -> None:
    sink = PipeSink(pipe[0])
    for item in restarted("one é two"):
        sink.take(item)
    assert os.read(pipe[1], 100).decode() == "one é two"
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "longstream: attempt 2 on w (worker v died)\n"


def test_a_pipe_whose_answer_restarts_differently_is_told_where(
    pipe: tuple[TextIO, int], capfd: pytest.CaptureFixture[str]
) -> None:
    sink = PipeSink(pipe[0])
    for item in restarted("two"):
        sink.take(item)
    assert os.read(pipe[1], 100).decode() == "one é twtwo"
    assert "differs from character 0 on" in capfd.readouterr().err


@pytest.mark.parametrize("second", ["one é two", "two", "one é", "one é, two", "日本"])
def test_a_file_always_ends_as_the_answer(tmp_path: Path, second: str) -> None:
    path = tmp_path / "answer"
    path.write_text("before: ", "utf-8")
    with path.open("a", encoding="utf-8") as out:
        sink = PipeSink(out)
        for item in restarted(second):
            sink.take(item)
    assert path.read_text("utf-8") == f"before: {second}"


def test_a_closed_pipe_is_noticed_while_no_text_comes() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as out:
        sink = PipeSink(out)
        sink.take(Status(state="running"))
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            sink.take(Status(state="running"))


def test_the_same_status_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    sink = PipeSink(None)
    details = ["2 ahead of it"] * 3 + [f"not before {left} s (busy)" for left in (3, 2, 1)]
    for detail in [*details, "1 ahead of it"]:
        sink.take(Status(state="waiting", detail=detail))
    assert capfd.readouterr().err.splitlines() == [
        "longstream: waiting: 2 ahead of it",
        "longstream: waiting: not before 3 s (busy)",
        "longstream: waiting: 1 ahead of it",
    ]


def test_a_long_line_is_told_in_few_lines(capfd: pytest.CaptureFixture[str]) -> None:
    sink = PipeSink(None)
    for ahead in range(1_000, 0, -1):
        sink.take(Status(state="waiting", detail=f"{ahead} ahead of it"))
    places = [int(line.split()[2]) for line in capfd.readouterr().err.splitlines()]
    assert places == [1_000, 511, 255, 127, 63, 31, 15, 7, 3, 1]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (text(120, "é"), {"cursor": "1-1", "type": "text", "offset": 120, "text": "é"}),
        (Cut(cursor="2-0", offset=7), {"cursor": "2-0", "type": "cut", "offset": 7}),
        (Thinking(cursor="1-2", tokens=9), {"cursor": "1-2", "type": "thinking", "tokens": 9}),
        (
            ATTEMPT,
            {
                "cursor": "2-0", "type": "attempt", "attempt": 2, "mode": "restart",
                "worker": "w", "key": "main", "reason": "worker v died",
            },
        ),
        (
            Note(cursor="1-3", what="degraded", reason="r"),
            {"cursor": "1-3", "type": "note", "what": "degraded", "reason": "r"},
        ),
        (
            Status(state="waiting", detail="next", place=0),
            {"type": "status", "state": "waiting", "detail": "next", "place": 0},
        ),
        (
            End(
                cursor="1-9", outcome="completed", length=4, digest="d", attempts=1,
                usage=Tokens(input=1, output=3, reasoning=2),
            ),
            {
                "cursor": "1-9", "type": "end", "outcome": "completed", "length": 4,
                "digest": "d", "attempts": 1,
                "usage": {"input": 1, "output": 3, "reasoning": 2},
            },
        ),
    ],
)  # fmt: skip
def test_json_is_one_object_a_line(
    monkeypatch: pytest.MonkeyPatch, item: Followed, expected: dict[str, Any]
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    JsonSink().take(item)
    line, rest = out.getvalue().split("\n")
    assert (json.loads(line), rest) == (expected, "")
    assert next(iter(json.loads(line))) == ("cursor" if "cursor" in expected else "type")


def test_only_a_later_attempt_is_worth_a_line() -> None:
    assert line_of(Attempt(cursor="1-0", attempt=1, mode="start", worker="w")) == ""
    assert line_of(ATTEMPT) == "attempt 2 on w (worker v died)"
    assert line_of(END) == ""


WHY = "the provider answered 500"


def test_why_an_attempt_ended_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Not again by everything that waits for the next one."""
    sink = PipeSink(None)
    for detail in (f"not before 2 s; last time: {WHY}", f"last time: {WHY}"):
        sink.take(Note(cursor="1-1", what="handed_back", reason=WHY))
        sink.take(Status(state="waiting", detail=detail))
    sink.take(msgspec.structs.replace(ATTEMPT, reason=WHY))
    assert capsys.readouterr().err.splitlines() == [
        f"longstream: handed back: {WHY}",
        "longstream: waiting: not before 2 s",
        f"longstream: handed back: {WHY}",
        "longstream: attempt 2 on w (restart)",
    ]


def test_a_reader_that_comes_later_is_told_why(capsys: pytest.CaptureFixture[str]) -> None:
    PipeSink(None).take(Status(state="waiting", detail=f"not before 2 s; last time: {WHY}"))
    assert WHY in capsys.readouterr().err


def test_that_a_job_runs_is_no_news_once_its_text_has_begun(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = PipeSink(None)
    running = Status(state="running", detail="on w with key main")
    for item in (text(0, "text"), running, Status(state="running", detail="stopping: cancel")):
        sink.take(item)
    assert capsys.readouterr().err == "longstream: running: stopping: cancel\n"
    PipeSink(None).take(running)
    assert "running: on w" in capsys.readouterr().err


def test_where_both_outputs_are_one_a_line_never_begins_in_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `longstream ask ... > log 2>&1` has it; what is void stays, or lines would go with it."""
    with (tmp_path / "log").open("w", encoding="utf-8") as out:
        monkeypatch.setattr("sys.stderr", out)
        sink = PipeSink(out)
        for item in restarted("two"):
            sink.take(item)
        sink.close()
        out.write("longstream: job j completed\n")
        out.flush()

    first, attempt, restart, *rest = (tmp_path / "log").read_text("utf-8").splitlines()
    assert first == "one é tw"
    assert attempt == "longstream: attempt 2 on w (worker v died)"
    assert restart.startswith("longstream: the answer was restarted and differs from character 0")
    assert rest == ["two", "longstream: job j completed"]


def test_a_text_that_ends_its_line_gets_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "log").open("w", encoding="utf-8") as out:
        monkeypatch.setattr("sys.stderr", out)
        sink = PipeSink(out)
        sink.take(text(0, "whole\n"))
        sink.close()

    assert (tmp_path / "log").read_text("utf-8") == "whole\n"
