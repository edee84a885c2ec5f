"""What a person sees, by way of a terminal that keeps its screen in memory."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyte
import pytest
from hypothesis import given, strategies as st

from tasks.cli.columns import width
from tasks.cli.terminal import TerminalSink
from worker.log.view import Attempt, Cut, End, Note, Status, Text, Thinking

LINES = 8


class Screen(pyte.HistoryScreen):
    """Like most terminals it wraps a wide letter that would be cut in half, and forgets that it
    owes a wrap when the cursor is restored."""

    def draw(self, data: str) -> None:
        for char in data:
            if width(char) == 2 and self.cursor.x == self.columns - 1:
                self.carriage_return()
                self.linefeed()
            super().draw(char)


class Terminal(io.StringIO):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.screen = Screen(columns, LINES, history=10_000)
        self.stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self.stream.feed(text.replace("\r\n", "\n").replace("\n", "\r\n"))
        return len(text)

    def lines(self) -> list[str]:
        """Everything shown so far, without the empty rest of the screen."""
        above = [
            "".join(line[column].data for column in range(self.screen.columns))
            for line in self.screen.history.top
        ]
        shown = [line.rstrip() for line in [*above, *self.screen.display]]
        while shown and not shown[-1]:
            shown.pop()
        return shown


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", "90")
    return 90


@pytest.fixture
def terminal(columns: int) -> Terminal:
    return Terminal(columns)


@pytest.fixture
def sink(terminal: Terminal) -> Iterator[TerminalSink]:
    showing = TerminalSink(terminal, simulated=True)
    showing.take(Attempt(cursor="1-0", attempt=1, mode="start", worker="w", key="main"))
    yield showing
    showing.close()


def texts(*pieces: str) -> list[Text]:
    offsets = [len("".join(pieces[:index])) for index in range(len(pieces))]
    return [
        Text(cursor=f"1-{index + 1}", offset=offset, text=piece)
        for index, (offset, piece) in enumerate(zip(offsets, pieces, strict=True))
    ]


LETTERS = st.text(st.sampled_from("abc \n日é"), max_size=30)
#: A piece of text, or a moment without any in which the status is drawn.
SCENES = st.lists(LETTERS | st.none(), max_size=25)


@given(scenes=SCENES, columns=st.integers(12, 20))
def test_the_status_leaves_no_trace_in_the_answer(scenes: list[str | None], columns: int) -> None:
    shown, plain = Terminal(columns), Terminal(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        sink = TerminalSink(shown)
        whole = ""
        for scene in scenes:
            if scene is None:
                sink.draw(3.0)
            elif scene:
                sink.take(Text(cursor="1-1", offset=len(whole), text=scene))
                whole += scene
        sink.close()
    plain.write(whole)
    assert shown.lines() == plain.lines()


@pytest.mark.parametrize("length", [89, 90, 91, 180])
def test_a_line_as_wide_as_the_screen_goes_on_in_the_next(
    terminal: Terminal, sink: TerminalSink, length: int
) -> None:
    first, second = texts("x" * length, "yz")
    sink.take(first)
    sink.draw(1.0)
    sink.take(second)
    assert "".join(terminal.lines()) == "x" * length + "yz"


def test_the_status_says_what_the_model_does(terminal: Terminal, sink: TerminalSink) -> None:
    sink.take(texts("Once")[0])
    sink.take(Thinking(cursor="1-2", tokens=1847))
    sink.draw(7.0)
    assert terminal.lines() == [
        "Once",
        "thinking: 1,847 reasoning tokens, 7 s without text, attempt 1, key main [simulated]",
    ]


def test_the_status_stands_below_the_text_at_the_bottom_of_the_screen(
    terminal: Terminal, sink: TerminalSink
) -> None:
    sink.take(texts("line\n" * 20 + "last")[0])
    for quiet_s in (1.0, 2.0, 3.0):
        sink.draw(quiet_s)
    *above, last, status = terminal.lines()
    assert (above, last) == (["line"] * 20, "last")
    assert "3 s without text" in status


def test_the_mark_of_a_simulation_survives_a_narrow_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    terminal = Terminal(40)
    sink = TerminalSink(terminal, simulated=True)
    sink.take(Attempt(cursor="1-0", attempt=1, mode="start", key="main"))
    sink.draw(1.0)
    assert len(terminal.lines()) == 1
    assert terminal.lines()[0].endswith("[simulated]")
    sink.close()


def test_closing_wipes_the_status_and_ends_the_line(terminal: Terminal, sink: TerminalSink) -> None:
    sink.take(texts("The end")[0])
    sink.draw(1.0)
    sink.close()
    assert terminal.lines() == ["The end"]
    assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (0, 1)


def test_an_answer_that_restarts_the_same_goes_on_without_a_seam(
    terminal: Terminal, sink: TerminalSink
) -> None:
    sink.take(texts("Once upon")[0])
    sink.draw(1.0)
    sink.take(Cut(cursor="2-0", offset=0))
    sink.take(Attempt(cursor="2-0", attempt=2, mode="restart", worker="v", key="main"))
    for item in texts("Once ", "upon a time"):
        sink.take(item)
    assert terminal.lines() == ["Once upon a time"]


def test_an_answer_that_restarts_differently_is_marked(
    terminal: Terminal, sink: TerminalSink
) -> None:
    sink.take(texts("Once upon")[0])
    sink.take(Cut(cursor="2-0", offset=0))
    sink.take(texts("Twice")[0])
    assert terminal.lines() == ["Once upon", "── restarted from character 0 ──", "Twice"]


def test_an_answer_can_not_move_the_cursor(terminal: Terminal, sink: TerminalSink) -> None:
    sink.take(texts("a\x1b[2Jb\rc\x9b1A")[0])
    assert terminal.lines() == ["a␛[2Jb␍c\N{REPLACEMENT CHARACTER}1A"]


def test_what_a_provider_says_can_not_move_the_cursor(
    terminal: Terminal, sink: TerminalSink
) -> None:
    sink.take(Note(cursor="1-1", what="handed_back", reason="\x1b[2J503"))
    sink.draw(1.0)
    assert terminal.lines() == ["handed back: ␛[2J503 [simulated]"]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (Status(state="running", detail="on w with key main"), "thinking: 0 reasoning tokens"),
        (Status(state="running", detail="stopping: cancel was asked for"), "running: stopping"),
        (Status(state="lost", detail="worker w is gone; another takes over"), "lost: worker w"),
        (Status(state="waiting", detail="2 ahead of it"), "waiting: 2 ahead of it"),
    ],
)
def test_a_status_is_shown_when_it_says_more_than_the_counters(
    terminal: Terminal, sink: TerminalSink, status: Status, shown: str
) -> None:
    sink.take(status)
    sink.draw(1.0)
    assert terminal.lines()[0].startswith(shown)


def test_text_makes_an_old_status_obsolete(terminal: Terminal, sink: TerminalSink) -> None:
    sink.take(Status(state="lost", detail="worker w is gone"))
    sink.take(texts("On we go")[0])
    sink.draw(1.0)
    assert terminal.lines()[1].startswith("thinking: ")


def test_a_shorter_answer_in_the_end_is_marked(terminal: Terminal, sink: TerminalSink) -> None:
    sink.take(texts("Once upon")[0])
    sink.take(Cut(cursor="2-0", offset=0))
    sink.take(texts("Once")[0])
    sink.take(End(cursor="2-2", outcome="completed", length=4, digest="", attempts=2))
    assert terminal.lines() == ["Once upon", "── restarted from character 4 ──"]
