"""What attempts used: written down at their end, and booked once, whoever dies on the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from settings.model import Account, Settings
from settings.prices import Price
from tests.conftest import Store
from tests.harness.journal import Journal, journal, say
from tests.harness.lines import Line
from worker.admission.line import run
from worker.admission.tickets import Ticket
from worker.job.cancel import cancel
from worker.ledger import booking
from worker.ledger.booking import Payer
from worker.ledger.books import read
from worker.ledger.catching_up import book_recorded, catch_up
from worker.ledger.paying import Paying
from worker.ledger.spending import Spending
from worker.ledger.totals import Row, grouped, money_of
from worker.log.claim import Claim
from worker.log.commit import GroupCommit
from worker.log.entries import Tokens
from worker.messages.message import plain_message
from worker.store.keys import ENTERED, books_key

PAYER = Payer(job_id="a1b2c3", task="t", tenant="default")
USED = Tokens(input=10, cached=2, output=30, reasoning=20)
TODAY = datetime.now(UTC).date()
SETTINGS = Settings(prices={"m": Price(input=1.0, cached_input=0.5, output=2.0)})


class Pump:
    """What a stream brought so far; `tokens` is what the provider said."""

    def __init__(
        self,
        produced: int = 0,
        thought: int = 0,
        tokens: Tokens | None = None,
        response_id: str = "",
    ) -> None:
        self.produced = produced
        self.thought = thought
        self.tokens = tokens or Tokens()
        self.response_id = response_id


def spending(attempt: int, **more: Any) -> Spending:
    made = Spending(attempt=attempt, at_ms=now_ms(), key="k", model="m", tokens=USED)
    return msgspec.structs.replace(made, **more)


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def booked(store: Store) -> list[Row]:
    return sorted(read(store.sync, TODAY, TODAY), key=lambda row: (row.key, row.cause))


def paying(job: Journal, commit: GroupCommit, claim: Claim) -> Paying:
    return Paying(commit, job.job_id, "k", claim.account.ticket.model, claim, 100)


def test_an_attempt_is_booked_once_however_often_it_is_said(store: Store) -> None:
    call = booking.book(PAYER, spending(1), read_ms=now_ms(), kept_s=100)

    assert [run(store.sync, call) for _ in range(3)] == [1, 0, 0]

    (row,) = booked(store)
    assert (row.attempts, row.tokens) == (1, USED)


def test_an_attempt_is_not_booked_by_who_read_the_record_long_ago(store: Store) -> None:
    """Another may have booked it meanwhile, and the books have forgotten that."""
    call = booking.book(PAYER, spending(1), read_ms=now_ms() - 301_000, kept_s=100)

    assert run(store.sync, call) == booking.STALE
    assert booked(store) == []


def test_everything_the_books_hold_expires(store: Store) -> None:
    run(store.sync, booking.book(PAYER, spending(1), read_ms=now_ms(), kept_s=100))

    assert 0 < store.sync.ttl(books_key(TODAY.isoformat())) <= 100
    assert store.sync.ttl(ENTERED) > 0


def test_an_attempt_counts_on_the_day_it_ended(store: Store) -> None:
    yesterday = now_ms() - 86_400_000
    call = booking.book(PAYER, spending(1, at_ms=yesterday), read_ms=now_ms(), kept_s=100)
    run(store.sync, call)

    assert booked(store) == []
    assert store.sync.exists(books_key(booking.day_of(yesterday)))


async def test_a_hand_back_leaves_its_spending_in_the_record_in_one_step(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        claim = await job.claimed()
        pays = paying(job, commit, claim)
        fields = await pays.recorded(Pump(tokens=USED), unpaid=False, wasted="truncated")  # type: ignore[arg-type]
        writer = job.writer_of(claim)
        await writer.hand_back("handed_back", "cut", failure=True, record=fields)
        await pays.book()

        assert job.record()[b"accounted"] == b"1"
        assert job.record()[b"booked"] == b"1"
        (row,) = booked(store)
        assert (row.cause, row.tokens, row.estimated) == ("truncated", USED, 0)
        await commit.close()


async def test_what_a_killed_worker_used_is_estimated_from_the_log(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        writer = await job.writer()
        writer.thinking(50)
        await say(writer, "four" * 10)

        claim = await job.claimed("w2")
        await paying(job, commit, claim).catch_up(goes_on=True)

        (row,) = booked(store)
        assert (row.cause, row.output, row.reasoning) == ("worker lost", 60, 50)
        assert row.estimated == row.input + row.output
        assert job.record()[b"booked"] == b"1"
        await commit.close()


async def test_a_killed_attempt_pays_for_the_model_that_it_fell_back_to(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        writer = await job.writer()
        writer.note("fallback", "second: overloaded")
        await say(writer, "text")
        await paying(job, commit, await job.claimed("w2")).catch_up(goes_on=True)

        (row,) = booked(store)
        assert row.model == "second"
        await commit.close()


async def test_catching_up_twice_changes_nothing(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        await say(await job.writer(), "text")
        claim = await job.claimed("w2")
        for _ in range(2):
            await paying(job, commit, claim).catch_up(goes_on=True)

        (row,) = booked(store)
        assert row.attempts == 1
        await commit.close()


async def test_text_that_is_continued_is_not_wasted(store: Store) -> None:
    async with journal(store, policy="continue") as job:
        commit = GroupCommit(store.aio())
        await say(await job.writer(), "text")
        await paying(job, commit, await job.claimed("w2")).catch_up(goes_on=True)

        (row,) = booked(store)
        assert (row.cause, row.output) == ("", 1)
        await commit.close()


async def test_a_response_that_is_taken_up_is_paid_for_once_by_who_ends_it(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        writer = await job.writer()
        writer.resumable(b'{"key":"k","response_id":"r","sequence":3}')
        await say(writer, "text")

        claim = await job.claimed("w2")
        pays = paying(job, commit, claim)
        await pays.catch_up(goes_on=True)
        assert booked(store) == []

        fields = await pays.recorded(Pump(tokens=USED), unpaid=False, wasted="")  # type: ignore[arg-type]
        await job.writer_of(claim).hand_back("handed_back", "", failure=False, record=fields)
        await pays.book()
        (row,) = booked(store)
        assert (row.attempts, row.tokens) == (1, USED)
        await commit.close()


async def test_a_response_taken_up_that_never_says_its_usage_is_estimated_whole(
    store: Store,
) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        writer = await job.writer()
        writer.resumable(b'{"key":"k","response_id":"r","sequence":3}')
        writer.thinking(7)
        await say(writer, "four" * 5)

        pays = paying(job, commit, await job.claimed("w2"))
        await pays.catch_up(goes_on=True)
        fields = await pays.recorded(Pump(produced=4, thought=1), unpaid=False, wasted="x")  # type: ignore[arg-type]

        spent = msgspec.json.decode(fields["spent:2"], type=Spending)  # type: ignore[arg-type]
        assert spent.estimated
        assert (spent.tokens.output, spent.tokens.reasoning) == (7 + 5 + 4, 7 + 1)
        await commit.close()


async def test_a_refused_attempt_costs_nothing_and_needs_no_entry(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        pays = paying(job, commit, await job.claimed())

        assert await pays.recorded(Pump(), unpaid=True, wasted="rate_limited") == {"accounted": 1}  # type: ignore[arg-type]
        await pays.book()
        assert booked(store) == []
        await commit.close()


async def test_what_was_recorded_and_not_booked_is_booked_by_the_next(store: Store) -> None:
    """The worker died between the two."""
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        claim = await job.claimed()
        fields = await paying(job, commit, claim).recorded(
            Pump(tokens=USED), unpaid=False, wasted="x"
        )  # type: ignore[arg-type]
        await job.writer_of(claim).hand_back("handed_back", "", failure=True, record=fields)
        assert booked(store) == []

        await paying(job, commit, await job.claimed("w2")).catch_up(goes_on=True)

        (row,) = booked(store)
        assert (row.attempts, row.tokens) == (1, USED)
        await commit.close()


async def test_who_cancels_a_waiting_job_accounts_for_the_worker_that_died_under_it(
    store: Store,
) -> None:
    line = Line(store.sync, {"a": Account(name="a")})
    async with journal(store) as job:
        message = plain_message("t", job.job_id, [], {}).dump()
        ticket = Ticket(tenant="acme", priority="normal", model="m", kind="", prompt=100)
        mapping: Any = {"message": message, "ticket": msgspec.json.encode(ticket)}
        store.sync.hset(job.keys.record, mapping=mapping)
        await say(await job.writer(), "four" * 3)
        line.submit(job.job_id)
        backend = SimpleNamespace(mark_as_failure=lambda *_, **__: None)

        cancel(SimpleNamespace(backend=backend), store.sync, line.settings, job.job_id)  # type: ignore[arg-type]

        (row,) = booked(store)
        assert (row.tenant, row.input, row.output, row.cause) == ("acme", 100, 3, "worker lost")


async def test_a_canceller_that_comes_twice_books_once(store: Store) -> None:
    async with journal(store) as job:
        await say(await job.writer(), "text")
        claim = await job.claimed("w2")
        for _ in range(2):
            catch_up(store.sync, job.job_id, claim)
            book_recorded(store.sync, job.job_id, claim, 100)

        (row,) = booked(store)
        assert row.attempts == 1


@pytest.mark.parametrize("by", ["day", "tenant", "model", "key", "task", "cause"])
def test_sums_have_all_tokens_and_name_the_wasted_ones(store: Store, by: Any) -> None:
    for attempt, wasted in enumerate(("", "cancelled", "truncated"), 1):
        call = booking.book(PAYER, spending(attempt, wasted=wasted), read_ms=now_ms(), kept_s=9)
        run(store.sync, call)

    sums = grouped(booked(store), by, SETTINGS)

    assert sum(each.attempts for each in sums) == 3
    assert sum(each.output for each in sums) == 90
    wasted = {cause: n for each in sums for cause, n in each.wasted.items()}
    assert wasted == {"cancelled": 40, "truncated": 40}
    assert sum(each.money.usd for each in sums) == pytest.approx(3 * 69e-6)
    assert sum(each.money.wasted_usd for each in sums) == pytest.approx(2 * 69e-6)


def test_the_cost_of_a_job_is_that_of_all_its_attempts() -> None:
    spent = [spending(1, wasted="truncated", estimated=True), spending(2), spending(3, model="?")]

    money = money_of(spent, SETTINGS)

    assert money.usd == pytest.approx(2 * 69e-6)
    assert money.unpriced_tokens == money.wasted_tokens == money.estimated_tokens == 40


async def test_books_that_cannot_be_written_are_no_trouble_of_the_job(store: Store) -> None:
    """Something else has written to the key; the record keeps what was used."""
    store.sync.set(books_key(TODAY.isoformat()), "mine")
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        claim = await job.claimed()
        pays = paying(job, commit, claim)
        fields = await pays.recorded(Pump(tokens=USED), unpaid=False, wasted="x")  # type: ignore[arg-type]
        await job.writer_of(claim).hand_back("handed_back", "", failure=True, record=fields)
        await pays.book()
        await paying(job, commit, await job.claimed("w2")).catch_up(goes_on=True)
        assert b"spent:1" in job.record()

        store.sync.delete(books_key(TODAY.isoformat()))
        await paying(job, commit, await job.claimed("w3")).catch_up(goes_on=True)
        found = {row.cause: row.tokens for row in booked(store)}
        assert found == {"x": USED, "worker lost": Tokens()}
        await commit.close()


async def told(_key: str, response_id: str) -> Tokens | None:
    """A provider that knows one stream."""
    return USED if response_id == "known" else None


@pytest.mark.parametrize(("response_id", "exact"), [("known", True), ("other", False)])
async def test_a_provider_that_tells_afterwards_is_believed_about_a_stream_that_was_cut(
    store: Store, response_id: str, exact: bool
) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        claim = await job.claimed()
        pays = Paying(commit, job.job_id, "k", "", claim, 100, told)

        pump: Any = Pump(produced=4, response_id=response_id)
        fields = await pays.recorded(pump, unpaid=False, wasted="cancelled")

        spent = msgspec.json.decode(fields["spent:1"], type=Spending)  # type: ignore[arg-type]
        assert (spent.tokens == USED, spent.estimated) == (exact, not exact)
        await commit.close()


@pytest.mark.parametrize(("response_id", "exact"), [("known", True), ("other", False)])
async def test_a_provider_is_asked_about_the_stream_of_a_worker_that_died(
    store: Store, response_id: str, exact: bool
) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        claim = await job.claimed()
        await commit.call(*booking.begun(job.job_id, claim.attempt, response_id))

        late = await job.claimed("w2")
        await Paying(commit, job.job_id, "k", "", late, 100, told).catch_up(goes_on=True)

        (row,) = booked(store)
        assert (row.tokens == USED, row.estimated == 0) == (exact, exact or row.estimated == 0)
        assert row.cause == "worker lost"
        await commit.close()


async def test_the_id_of_a_stream_is_only_noted_by_who_owns_the_job(store: Store) -> None:
    async with journal(store) as job:
        first = await job.claimed()
        await job.claimed("w2")

        assert run(store.sync, booking.begun(job.job_id, first.attempt, "late")) == 0
        assert b"stream:1" not in job.record()


async def test_an_id_that_can_not_be_noted_is_told_and_troubles_no_job(store: Store) -> None:
    async with journal(store) as job:
        commit = GroupCommit(store.aio())
        pays = paying(job, commit, await job.claimed())
        store.sync.set(job.keys.record, "no hash", ex=100)
        with capture_logs() as logs:
            pays.begun("chat-1")
            assert pays._noting is not None
            async with asyncio.timeout(5):
                await pays._noting
        await commit.close()
    assert [line["event"] for line in logs] == ["ledger.stream_not_noted"]
