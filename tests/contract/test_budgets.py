"""What a job, a tenant and a day may cost, and what happens at the limit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from settings.budgets import Budget, Tenant
from settings.model import Account, Settings
from settings.prices import Price
from tests.conftest import Store
from tests.harness.journal import SUBMIT
from tests.harness.lines import Line
from worker.admission.line import run
from worker.admission.tickets import Ticket
from worker.admission.waiting import queues
from worker.attempt.reading import Whole
from worker.attempt.runner import Attempt
from worker.attempt.work import Sealed, Verdict, Work, Yielded
from worker.job.records import Record, parse_record
from worker.job.terms import Terms
from worker.ledger import booking
from worker.ledger.allowed import BudgetSpent, refuse_spent, refuse_unpriced
from worker.ledger.booking import Payer
from worker.ledger.purse import Purse
from worker.ledger.spending import Spending
from worker.log import reader
from worker.log.commit import GroupCommit
from worker.log.entries import Tokens
from worker.log.status import status_of
from worker.outcomes import Outcome
from worker.store.keys import books_key, job_keys, pool_keys
from worker.upstream.following import Take
from worker.upstream.happenings import Finished, Text
from worker.upstream.request import Message, Request

JOB = "a1b2c3"
KEYS = job_keys(JOB)
#: A token of an answer costs a cent; a prompt nothing.
PRICES = {"m": Price(input=0.0, cached_input=0.0, output=10_000.0)}


class Provider:
    """Says so many tokens, one a read, and lets others run between two."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.said = 0

    async def stream_into(self, _request: object, _key: object, take: Take, **_: object) -> None:
        for _ in range(self.tokens):
            self.said += 1
            take([Text("word ")])
            await asyncio.sleep(0.001)
        take([Finished(Outcome.COMPLETED, None)])


async def attempt(
    store: Store, settings: dict[str, Any], tokens: int = 40, max_cost_micros: int = 0
) -> tuple[Verdict, Provider]:
    """One attempt of one job of the tenant acme."""
    ticket = Ticket(tenant="acme", priority="normal", model="m", kind="t m", prompt=100)
    fields = ["task", "t", "model", "m", "pool", "p", "tenant", "acme"]
    fields += ["ticket", msgspec.json.encode(ticket), "max_cost_micros", max_cost_micros]
    SUBMIT.call(store.sync, [KEYS.record, KEYS.tombstone], [0, 0, *fields])
    line = Line(store.sync, {"a": Account(name="a")})
    line.submit(JOB)
    (lease,) = line.ask().leases
    work = Work(
        lease=lease,
        build=lambda: Request(model="m", messages=(Message("user", "?"),)),
        read=lambda: Whole(lambda text: text),
    )
    commit, provider = GroupCommit(store.aio()), Provider(tokens)
    whole = {"pools": line.settings.pools, "prices": PRICES} | settings
    made = Settings(**whole)
    try:
        async with asyncio.timeout(20):
            return await Attempt(made, "w1", commit, provider, work).run(), provider  # type: ignore[arg-type]
    finally:
        await commit.close()


def record(store: Store) -> Record:
    raw: Any = store.sync.hgetall(KEYS.record)
    found = parse_record(JOB, raw)
    assert found is not None
    return found


def spend(store: Store, usd: float, tenant: str = "acme") -> None:
    """Book it today."""
    now = int(datetime.now(UTC).timestamp() * 1000)
    used = Spending(attempt=1, at_ms=now, model="m", tokens=Tokens(output=round(usd * 100)))
    payer = Payer(job_id=f"other-{tenant}", task="t", tenant=tenant)
    run(store.sync, booking.book(payer, used, read_ms=now, kept_s=100))


async def test_a_job_that_reaches_its_limit_stops_and_keeps_its_text(store: Store) -> None:
    verdict, provider = await attempt(store, {}, max_cost_micros=100_000)

    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.INCOMPLETE
    assert verdict.reason == "stopped by the job's budget of 0.1 USD"
    assert 10 < provider.said <= 13
    assert reader.text_of(store.sync, JOB) == "word " * provider.said
    (spent,) = record(store).spent
    assert (spent.tokens.output, spent.wasted) == (provider.said, "")


async def test_a_job_within_its_limit_is_not_touched(store: Store) -> None:
    verdict, _ = await attempt(store, {}, tokens=10, max_cost_micros=100_000)

    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": Budget(job_usd=0.1)},
        {"tenants": {"acme": Tenant(job_usd=0.1)}},
        {"tenants": {"acme": Tenant(job_usd=0.1)}, "budget": Budget(job_usd=9.0)},
    ],
)
async def test_the_settings_limit_a_job_that_names_no_limit(store: Store, settings: Any) -> None:
    verdict, _ = await attempt(store, settings)

    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.INCOMPLETE


@pytest.mark.parametrize(
    "settings",
    [{"tenants": {"acme": Tenant(day_usd=1.0)}}, {"budget": Budget(day_usd=1.0)}],
)
async def test_a_budget_that_is_used_up_holds_the_job_and_says_so(
    store: Store, settings: Any
) -> None:
    spend(store, 1.2)

    verdict, provider = await attempt(store, settings)

    assert isinstance(verdict, Yielded)
    assert provider.said == 0
    found = record(store)
    assert (found.state, found.spent) == ("waiting", ())
    whose = "tenant acme" if "tenants" in settings else "everybody"
    assert found.why.startswith(f"budget of {whose}: 1.2000 of 1.0 USD are spent, until ")
    assert store.sync.zscore(pool_keys("p").delayed, JOB) is not None
    assert status_of(store.sync, JOB).reason == found.why
    (queue,) = queues(store.sync, Line(store.sync, {"a": Account(name="a")}).settings, 5)
    assert queue.first[0].waits_for == found.why


async def test_a_budget_that_is_used_up_stops_the_job_where_it_is_told_to(store: Store) -> None:
    spend(store, 1.2)

    verdict, provider = await attempt(store, {"budget": Budget(day_usd=1.0, action="stop")})

    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, provider.said) == (Outcome.FAILED, 0)


async def test_a_budget_that_only_warns_lets_the_job_run(store: Store) -> None:
    spend(store, 1.2)

    verdict, _ = await attempt(store, {"budget": Budget(day_usd=1.0, action="warn")})

    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.COMPLETED


async def test_what_another_tenant_spent_is_nothing_to_this_one(store: Store) -> None:
    spend(store, 1.2, tenant="other")

    verdict, _ = await attempt(store, {"tenants": {"acme": Tenant(day_usd=1.0)}})

    assert isinstance(verdict, Sealed)


async def test_a_running_stream_is_stopped_when_the_day_is_spent(store: Store) -> None:
    """Its own tokens count while they come."""
    settings = {"budget": Budget(day_usd=1.0, action="stop")}

    verdict, provider = await attempt(store, settings, tokens=20_000)

    assert isinstance(verdict, Sealed)
    assert verdict.outcome is Outcome.INCOMPLETE
    assert verdict.reason.startswith("stopped by the budget of everybody: ")
    assert reader.text_of(store.sync, JOB) == "word " * provider.said


async def test_books_that_can_not_be_read_are_no_reason_to_give_up_an_answer(store: Store) -> None:
    books = books_key(datetime.now(UTC).date().isoformat())

    async def spoil() -> None:
        async with asyncio.timeout(10):
            while store.sync.xlen(KEYS.log) < 2:
                await asyncio.sleep(0.005)
        store.sync.set(books, "no hash", ex=100)

    (verdict, provider), _ = await asyncio.gather(
        attempt(store, {"budget": Budget(day_usd=1e6)}, tokens=1500), spoil()
    )

    assert isinstance(verdict, Sealed)
    assert (verdict.outcome, provider.said) == (Outcome.COMPLETED, 1500)


async def test_streams_of_a_process_count_together_and_each_for_its_tenant(store: Store) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    spend(store, 1.0)
    whole: Any = {"prices": PRICES, "budget": Budget(day_usd=9)}
    settings = Settings(**whole, tenants={"acme": Tenant(day_usd=5), "other": Tenant(day_usd=5)})
    commit = GroupCommit(store.aio())
    purse = Purse(settings, commit)
    try:
        for tenant, usd in (("acme", 2), ("acme", 0.5), ("other", 0.25)):
            purse.begin(tenant, partial(Decimal, usd))
        left = {t: [limit.left for limit in await purse.limits(t, now)] for t in ("acme", "other")}
    finally:
        await commit.close()

    assert left == {"acme": [Decimal("5.25"), Decimal("1.5")], "other": [5.25, Decimal("4.75")]}


async def test_a_stream_that_has_ended_counts_by_the_books_at_once_and_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("worker.ledger.purse.time", clock)
    now = int(datetime.now(UTC).timestamp() * 1000)
    whole: Any = {"prices": PRICES, "budget": Budget(day_usd=9)}
    commit = GroupCommit(store.aio())
    purse = Purse(Settings(**whole), commit)

    async def left() -> Decimal:
        (limit,) = await purse.limits("acme", now)
        return limit.left

    try:
        first = purse.begin("acme", partial(Decimal, 2))
        purse.begin("acme", partial(Decimal, 1))
        assert await left() == 6
        spend(store, 2.0)
        purse.end(first)
        for clock.now in (0.0, 0.5, 5.0):
            assert await left() == 6, "neither forgotten nor counted twice"
            purse.end(first)
    finally:
        await commit.close()


def test_a_spent_budget_refuses_new_jobs_with_the_way_out(store: Store) -> None:
    spend(store, 1.2)
    now = int(datetime.now(UTC).timestamp() * 1000)
    settings = Settings(prices=PRICES, tenants={"acme": Tenant(day_usd=1.0, action="stop")})

    with pytest.raises(BudgetSpent, match=r"budget of tenant acme: .* raise it in longstream.toml"):
        refuse_spent(store.sync, settings, "acme", now)
    refuse_spent(store.sync, settings, "other", now)


def test_a_model_without_a_price_is_refused_where_a_budget_holds() -> None:
    settings = Settings(tenants={"acme": Tenant(day_usd=1.0)})

    with pytest.raises(Exception, match="x has no known price, and a budget holds"):
        refuse_unpriced(settings, "x", "acme", Terms())
    with pytest.raises(Exception, match="x has no known price"):
        refuse_unpriced(Settings(), "x", "other", Terms(max_cost_usd=1))
    refuse_unpriced(settings, "x", "other", Terms())
