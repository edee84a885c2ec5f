"""A run as it is shown: a table that fits its screen, lines that tell news alone, objects."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from settings.prices import UNKNOWN, Price
from tasks.cli.boards import JsonBoard, LineBoard, Scene, totals
from tasks.cli.table import TableBoard
from tasks.runs.delivery import FileDone
from tasks.runs.progress import JobView
from worker.ledger.totals import Money
from worker.log.entries import Tokens

PRICE = Price(input=1.0, output=10.0)


def scene(*views: JobView, price: Price = PRICE, done: dict[str, FileDone] | None = None) -> Scene:
    return Scene("r1", {view.id: view for view in views}, done or {}, price)


def running(name: str, *paths: str, chars: int = 0, **ready: str) -> JobView:
    view = JobView(name, paths, state="running", key="k1", attempt=1, chars=chars)
    view.ready = {f"{stem}.py": text for stem, text in ready.items()}
    return view


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), width=100, height=12, force_terminal=True, color_system=None)


def drawn(board: TableBoard, screen: Console) -> list[str]:
    """The table as it would be drawn now; the board draws on its own screen meanwhile."""
    paper = Console(file=io.StringIO(), width=screen.width, color_system=None)
    with paper.capture() as capture:
        paper.print(board.table())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_row_tells_where_its_file_is(screen: Console) -> None:
    waiting = JobView("w", ("w.py",), place=4)
    thinking = running("t", "t.py")
    thinking.thinking = 1234
    writing = running("j", "a.py", "b.py", "c.py", chars=4400, a="x" * 400)
    writing.prompt, writing.sizes = 9000, {"a.py": 1000, "b.py": 4000, "c.py": 5000}
    board = TableBoard(scene(waiting, thinking, writing), screen)
    lines = drawn(board, screen)
    board.close()

    assert lines[0].split() == ["file", "state", "line", "thinking", "tokens", "USD", "key"]
    assert lines[1].split() == ["w.py", "waiting", "5"]
    assert lines[2].split() == ["t.py", "thinking", "1,234", "0.0123", "k1"]
    assert lines[3].split() == ["a.py", "ready", "100", "0.0020", "k1"]
    assert lines[4].split() == ["b.py", "writing", "1,000", "0.0080", "k1"]
    assert lines[5].split() == ["c.py", "next", "0.0100"]
    assert "Ctrl-C leaves it running" in " ".join(lines[6:])


def test_a_table_fits_its_screen_and_shows_what_matters_now(screen: Console) -> None:
    views = [JobView(f"j{n}", (f"f{n:02}.py",), place=n) for n in range(40)]
    views[30] = running("j30", "f30.py", chars=10)
    done = {
        "f00.py": FileDone("f00.py", "written"),
        "f35.py": FileDone("f35.py", "refused", "no"),
    }
    for number in (0, 35):
        views[number].state = "ended"
    board = TableBoard(scene(*views, done=done), screen)
    lines = drawn(board, screen)
    board.close()

    assert len(lines) <= screen.height
    names = [line.split()[0] for line in lines if line.startswith("f") and ".py" in line]
    assert names == sorted(names)
    assert {"f30.py", "f35.py", "f01.py", "f02.py"} <= set(names)
    assert "f00.py" not in names
    assert "39" not in "".join(names)


def test_the_first_in_the_line_is_shown_before_those_behind_it(screen: Console) -> None:
    views = [JobView(f"j{n}", (f"f{n:02}.py",), place=39 - n) for n in range(40)]
    board = TableBoard(scene(*views), screen)
    lines = drawn(board, screen)
    board.close()

    names = [line.split()[0] for line in lines if line.startswith("f") and ".py" in line]
    assert names[-1] == "f39.py"


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80])
def test_a_narrow_screen_keeps_the_files_and_gives_up_figures(width: int) -> None:
    narrow = Console(
        file=io.StringIO(), width=width, height=12, force_terminal=True, color_system=None
    )
    board = TableBoard(scene(running("j", "a.py", chars=400)), narrow)
    lines = drawn(board, narrow)
    board.close()

    assert lines[0].split()[:2] == ["file", "state"]
    assert lines[1].split()[:2] == ["a.py", "writing"]
    assert ("tokens" in lines[0], "key" in lines[0]) == (width >= 40, width >= 80)
    assert (
        " ".join(" ".join(lines[2:]).split()) == f"{totals(board._scene)}; Ctrl-C leaves it running"
    )


def test_an_echo_of_ctrl_c_starts_no_line(screen: Console) -> None:
    board = TableBoard(scene(running("j", "a.py", chars=400)), screen)
    paper = Console(file=io.StringIO(), width=screen.width, color_system=None)
    with paper.capture() as capture:
        paper.print(board.table())
    board.close()

    assert max(map(len, capture.get().splitlines())) <= screen.width - len("^C^C")


def test_an_unknown_price_is_no_zero(screen: Console) -> None:
    board = TableBoard(scene(running("j", "a.py", chars=400), price=UNKNOWN), screen)
    assert drawn(board, screen)[1].split() == ["a.py", "writing", "100", "?", "k1"]
    board.close()


def test_a_cost_that_lacks_a_part_says_so(screen: Console) -> None:
    view = running("j", "a.py", chars=4000)
    view.prompt = 500
    board = TableBoard(scene(view, price=Price(output=10.0)), screen)
    assert drawn(board, screen)[1].split() == ["a.py", "writing", "1,000", "0.0100+?", "k1"]
    board.close()


def test_what_a_job_costs_is_what_its_record_says_once_it_has_ended(screen: Console) -> None:
    view = running("j", "a.py", chars=4000, a="x" * 4000)
    view.state, view.usage = "ended", Tokens(input=1, output=1)
    view.taken = Tokens(input=100_000, output=50_000)
    view.cost = Money(
        usd=0.75,
        unpriced_tokens=0,
        wasted_usd=0.25,
        wasted_tokens=9,
        estimated_tokens=0,
        approximate=False,
    )
    shown = scene(view, done={"a.py": FileDone("a.py", "written")})
    board = TableBoard(shown, screen)
    assert drawn(board, screen)[1].split() == ["a.py", "written", "1,000", "0.7500", "k1"]
    board.close()
    assert totals(shown).endswith("150,000 tokens, 0.7500 USD")


def test_sums_are_about_what_runs_until_it_has_ended() -> None:
    view = running("j", "a.py", chars=4000)
    view.prompt = 500
    assert totals(scene(view)).endswith("1,500 tokens, about 0.0105 USD")


def test_names_can_not_drive_the_terminal(screen: Console) -> None:
    board = TableBoard(scene(running("j", "\x1b[31mred[bold].py", chars=4)), screen)
    assert '"\\u001b[31mred[bold].py"' in drawn(board, screen)[1]
    board.close()


def test_sums_add_up_what_ended(capsys: pytest.CaptureFixture[str]) -> None:
    ended = JobView("e", ("e.py",), state="ended", usage=Tokens(input=1000, output=500))
    done = {"e.py": FileDone("e.py", "refused", "x")}
    line = totals(scene(ended, running("j", "a.py"), JobView("w", ("w.py",)), done=done))
    assert line == (
        "run r1: 1 of 3 files done, 1 of 3 jobs ended, 1 running, 1 waiting, 1 not taken, "
        "1,500 tokens, 0.0060 USD"
    )


def test_lines_tell_news_and_not_what_ticks(capsys: pytest.CaptureFixture[str]) -> None:
    view, other = running("j", "a.py"), JobView("o", ("o.py",))
    board = LineBoard(scene(view, other))
    for chars in (1, 2, 3):
        view.chars = chars
        board.changed(view)
    view.attempt = 2
    board.changed(view)
    board.changed(view)
    view.state, view.outcome, view.reason = "ended", "failed", "no"
    board.changed(view)
    board.file(FileDone("a.py", "missing", "job j failed: no"))
    assert capsys.readouterr().err.splitlines() == [
        "longstream: job j goes on with attempt 2 on key k1",
        "longstream: job j failed: no",
        "longstream: a.py: missing, job j failed: no",
    ]


def test_what_many_jobs_wait_for_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    views = [
        JobView(f"j{n}", (f"f{n}.py",), state="lost", detail="worker w is gone") for n in "abc"
    ]
    board = LineBoard(scene(*views))
    for view in views:
        board.changed(view)
    assert capsys.readouterr().err.splitlines() == ["longstream: job ja lost: worker w is gone"]


def test_objects_come_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    view = running("j", "a.py")
    board = JsonBoard(scene(view))
    for chars in (1, 2, 3):
        view.chars = chars
        board.changed(view)
    view.ready = {"a.py": "x"}
    board.changed(view)
    board.file(FileDone("a.py", "written"))
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(item["type"], item.get("ready")) for item in said] == [
        ("job", []),
        ("job", ["a.py"]),
        ("file", None),
    ]
