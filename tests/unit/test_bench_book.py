"""The state file: what had ended stays, and what is not ours is left alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from tasks.bench.book import Book, BookError, Header
from tasks.bench.histogram import of_values
from tasks.bench.sample import Sample, Verdict
from worker.log.entries import Tokens

HEADER = Header(
    run="r1", mode="configured", source="one at a", model="m", efforts=("low", "medium"), factor=1.0
)


def sample(n: int) -> Sample:
    return Sample(
        phase="jobs",
        n=n,
        kind="reasoning-heavy",
        effort="low",
        verdict=Verdict.COMPLETED,
        visible=of_values([0.038, 0.09]),
        tokens=Tokens(input=3, output=9, reasoning=4),
        seconds=1.5,
    )


def written(path: Path, count: int) -> None:
    book = Book(path, HEADER)
    for n in range(count):
        book.begin("jobs", n)
        book.end(sample(n))
    book.begin("jobs", count)
    book.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "bench.jsonl"


def test_another_process_finds_what_ended_and_what_began(path: Path) -> None:
    written(path, 3)

    book = Book(path, Header(run="other", **{k: getattr(HEADER, k) for k in _PLAN}))
    assert book.of("jobs") == [sample(0), sample(1), sample(2)]
    assert ("jobs", 3) in book.begun
    assert book.header.run == "r1"
    book.close()


_PLAN = ("mode", "source", "model", "efforts", "factor")


@given(cut=st.integers(min_value=1))
def test_wherever_a_kill_cuts_the_last_line_the_rest_stays(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("book") / "bench.jsonl"
    written(path, 2)
    data = path.read_bytes()
    last = len(data) - data.rstrip(b"\n").rfind(b"\n") - 1
    path.write_bytes(data[: len(data) - 1 - cut % (last - 1)])

    book = Book(path, HEADER)
    assert len(book.of("jobs")) == 2
    book.end(sample(2))
    book.close()
    again = Book(path, HEADER)
    assert len(again.of("jobs")) == 3
    again.close()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda _: b"not a book\n", 1),
        (lambda _: b"no newline either", 1),
        (lambda _: b"\xff\xfe\n\n", 1),
        (lambda data: data.replace(b'"type":"ended"', b'"type":"eaten"', 1), 3),
        (lambda data: data + data, 7),
        (lambda data: data[data.index(b"\n") + 1 :], 1),
    ],
)
def test_what_is_no_book_is_refused_by_its_line_and_left_as_it_is(
    path: Path, change: object, line: int
) -> None:
    written(path, 2)
    strange = change(path.read_bytes())  # type: ignore[operator]
    path.write_bytes(strange)

    with pytest.raises(BookError, match=rf"bench.jsonl, line {line}, is no line of a bench"):
        Book(path, HEADER)
    assert path.read_bytes() == strange


def test_another_run_is_refused_by_what_differs(path: Path) -> None:
    written(path, 1)
    other = msgspec.structs.replace(
        HEADER, run="r2", source="two at b", model="n", efforts=("low",)
    )

    with pytest.raises(
        BookError,
        match=r"source one at a, not two at b; model m, not n; efforts \('low', 'medium'\), not",
    ):
        Book(path, other)


def test_fresh_begins_anew(path: Path) -> None:
    written(path, 1)
    path.write_bytes(path.read_bytes() + b"garbage\n")

    book = Book(path, HEADER, fresh=True)
    assert not book.samples
    book.close()


def test_a_bill_is_known_when_one_call_ran_the_whole_phase(path: Path) -> None:
    bill = Tokens(input=3, output=9, reasoning=4)
    book = Book(path, HEADER)
    book.spend("ours", 2.0)
    assert book.billed("ours") is None
    book.bill("ours", bill)
    book.close()

    book = Book(path, HEADER)
    assert book.billed("ours") == bill
    # More samples were asked for later, and are not on it.
    book.spend("ours", 1.0)
    assert book.billed("ours") is None
    book.close()


def test_a_phase_that_a_killed_call_had_begun_is_not_untouched(path: Path) -> None:
    written(path, 0)

    book = Book(path, HEADER)
    assert not book.untouched("jobs")
    assert book.untouched("sdk")
    book.close()


def test_two_runs_do_not_share_a_file(path: Path) -> None:
    book = Book(path, HEADER)

    with pytest.raises(BookError, match="another bench runs with"):
        Book(path, HEADER)
    book.close()


def test_a_file_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(BookError, match="cannot write the state file"):
        Book(tmp_path / "taken" / "bench.jsonl", HEADER)
