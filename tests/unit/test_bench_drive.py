"""A phase of a run: all samples once, so many at a time, and an end when there is no use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from settings.errors import LongstreamError
from settings.prices import Price
from tasks.bench import drive
from tasks.bench.book import Book, Header
from tasks.bench.drive import HOPELESS, Drive, Hopeless
from tasks.bench.plan import HEAVY, VISIBLE, Task, task
from tasks.bench.purse import BOUND, Purse
from tasks.bench.sample import Sample, Verdict
from worker.ledger.cost import cost_of
from worker.log.entries import Tokens

EFFORTS = ("low", "medium")
PRICE = Price(input=1.0, cached_input=1.0, output=10.0)


@pytest.fixture(autouse=True)
def _no_ramp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "RAMP_S", 0.0)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    header = Header(run="r", mode="configured", source="s", model="m", efforts=EFFORTS, factor=1.0)
    opened = Book(tmp_path / "bench.jsonl", header)
    yield opened
    opened.close()


class Contender:
    def __init__(self, verdict: Verdict = Verdict.COMPLETED, output: int = 100) -> None:
        self.asked: list[int] = []
        self.most = self._now = 0
        self._verdict = verdict
        self._output = output

    async def one(self, task: Task) -> Sample:
        self.asked.append(task.n)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        return Sample(
            phase="jobs",
            n=task.n,
            kind=task.kind,
            effort=task.effort,
            verdict=self._verdict,
            detail="failed: why" if self._verdict is Verdict.ERROR else "",
            tokens=Tokens(output=self._output),
            characters=1,
        )


def tasks(numbers: range) -> Iterator[Task]:
    return iter([task(n, EFFORTS) for n in numbers])


async def drove(
    book: Book, contender: Contender, purse: Purse, numbers: range, concurrency: int = 7
) -> Drive:
    driving = Drive("jobs", book, purse, lambda _: None)
    await driving.run(tasks(numbers), contender.one, concurrency)
    return driving


async def test_every_sample_is_asked_once_and_no_more_at_a_time(book: Book) -> None:
    contender = Contender()

    driving = await drove(book, contender, Purse(None, "m", PRICE), range(50))

    assert sorted(contender.asked) == list(range(50))
    assert contender.most == 7
    assert not driving.stopped
    assert len(book.of("jobs")) == 50


async def test_the_limit_stops_it_and_what_ended_is_kept(book: Book) -> None:
    limit = cost_of(BOUND, PRICE).usd + Decimal("0.01")
    purse, contender = Purse(limit, "m", PRICE), Contender(output=1_000)

    driving = await drove(book, contender, purse, range(50))

    assert driving.stopped
    assert purse.cost.usd <= limit
    # One bound in reserve leaves room for two samples of a cent each, and no third.
    assert len(book.of("jobs")) == len(contender.asked) == 2


async def test_when_nothing_succeeds_it_says_so_and_ends(book: Book) -> None:
    contender = Contender(Verdict.ERROR)

    with pytest.raises(Hopeless, match="all failed; the last: failed: why"):
        await drove(book, contender, Purse(None, "m", PRICE), range(5_000))
    assert HOPELESS <= len(contender.asked) < 2 * HOPELESS


async def test_a_run_that_had_success_before_goes_on_through_failures(book: Book) -> None:
    await drove(book, Contender(), Purse(None, "m", PRICE), range(1))

    await drove(book, Contender(Verdict.ERROR), Purse(None, "m", PRICE), range(1, 60))

    assert len(book.of("jobs")) == 60


async def test_what_can_not_go_on_is_raised_as_it_is(book: Book) -> None:
    async def broken(_: Task) -> Sample:
        raise LongstreamError("cannot reach Redis")

    driving = Drive("jobs", book, Purse(None, "m", PRICE), lambda _: None)
    with pytest.raises(LongstreamError, match="cannot reach Redis"):
        await driving.run(tasks(range(9)), broken, 3)


def test_kinds_alternate_efforts_take_turns_and_no_prompt_comes_twice() -> None:
    planned = [task(n, EFFORTS) for n in range(400)]

    assert [(each.kind, each.effort) for each in planned[:4]] == [
        (HEAVY, "low"),
        (VISIBLE, "low"),
        (HEAVY, "medium"),
        (VISIBLE, "medium"),
    ]
    assert len({each.prompt for each in planned}) == 400
    assert all(each.kind in each.prompt for each in planned)
    assert planned == [task(n, EFFORTS) for n in range(400)]
