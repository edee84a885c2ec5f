"""The fleet in numbers: what `fleet.look` read, under labels that the configuration bounds."""

from __future__ import annotations

from collections.abc import Sequence

from settings.model import Settings
from worker.admission.overview import AccountView
from worker.ledger.totals import Row, summed
from worker.seeing.fleet import Fleet, PoolLook
from worker.seeing.meters import Counter, Few, Gauge, Meter, meters_of


class FleetGauges:
    """Declared in one place; `filled` sets them."""

    def __init__(self) -> None:
        self.up = Gauge("store_up", "1 when the store answered this scrape.")
        self.jobs = Gauge(
            "pool_jobs",
            "Jobs by state: waiting for their turn, delayed until a time, or running on a lease.",
            ("pool", "state"),
        )
        self.oldest = Gauge(
            "pool_oldest_waiting_seconds",
            "Age of the oldest of the 100 jobs whose turn comes next; 0: nobody waits.",
            ("pool",),
        )
        self.expected = Gauge(
            "pool_expected_wait_seconds",
            "Until the last job of the line is expected to start; absent while nobody knows.",
            ("pool",),
        )
        self.cancelled = Counter(
            "pool_cancelled_waiting",
            "Jobs cancelled while they waited; whoever cancels them seals them, and no worker.",
            ("pool",),
        )
        self.workers = Gauge("pool_workers", "Workers that renew.", ("pool",))
        self.slots = Gauge("pool_slots", "Streams the workers that renew take.", ("pool",))
        self.usable = Gauge(
            "key_usable", "1 when the key may be used now, 0 while it rests.", ("pool", "key")
        )
        self.streams = Gauge("account_streams", "Streams open on an account.", ("pool", "account"))
        self.left = Gauge(
            "account_left",
            "What is free of a limit now, by dimension.",
            ("pool", "account", "dimension"),
        )
        self.limit = Gauge(
            "account_limit",
            "The limit that is kept to now; lower than configured when it was learned.",
            ("pool", "account", "dimension"),
        )
        self.headroom = Gauge(
            "account_headroom_ratio", "Left of the limit, 0 to 1.", ("pool", "account", "dimension")
        )
        self.tokens = Gauge(
            "account_tokens_last_hour", "Tokens used in the last hour.", ("pool", "account")
        )
        self.refusals = Gauge(
            "account_refusals_last_hour", "Refusals (429) in the last hour.", ("pool", "account")
        )

        self.spent = Gauge(
            "spent_today_usd",
            "Money spent since midnight UTC, of tokens whose price is known.",
            ("model", "key"),
        )
        self.unpriced = Gauge(
            "spent_today_unpriced_tokens",
            "Tokens used since midnight UTC whose price is not known.",
            ("model", "key"),
        )
        self.wasted = Gauge(
            "wasted_today_tokens",
            "Tokens since midnight UTC that were paid for and thrown away.",
            ("why",),
        )
        self.wasted_usd = Gauge(
            "wasted_today_usd", "What is known of their price; it is in the money spent.", ("why",)
        )

    def all(self) -> list[Meter]:
        return meters_of(self)


def filled(fleet: Fleet | None, settings: Settings) -> FleetGauges:
    """None: the store did not answer."""
    gauges = FleetGauges()
    gauges.up.set(to=int(fleet is not None))
    if fleet is not None:
        for pool in fleet.pools:
            _fill_pool(gauges, pool)
        for account in fleet.accounts:
            _fill_account(gauges, account)
        _fill_money(gauges, fleet.books, settings)
    return gauges


def _fill_pool(gauges: FleetGauges, look: PoolLook) -> None:
    pool, queue = look.pool, look.queue
    for state in ("waiting", "delayed", "running"):
        gauges.jobs.set(pool, state, to=getattr(queue, state))
    gauges.oldest.set(pool, to=look.oldest_s or 0)
    if look.last_s is not None or not queue.waiting:
        gauges.expected.set(pool, to=look.last_s or 0)
    gauges.cancelled.add(pool, by=look.cancelled)
    gauges.workers.set(pool, to=len(look.workers))
    gauges.slots.set(pool, to=look.slots)
    out = {key.alias for key in look.out}
    for alias in look.keys:
        gauges.usable.set(pool, alias, to=int(alias not in out))


def _fill_money(gauges: FleetGauges, books: Sequence[Row], settings: Settings) -> None:
    models, causes = Few(), Few()
    # The most used first, so that they keep their names.
    for row in sorted(books, key=lambda row: -row.output):
        money = summed("", [row], settings).money
        at = (models.name(row.model), row.key)
        gauges.spent.add(*at, by=money.usd)
        gauges.unpriced.add(*at, by=money.unpriced_tokens)
        if row.cause:
            cause = causes.name(row.cause)
            gauges.wasted.add(cause, by=money.wasted_tokens)
            gauges.wasted_usd.add(cause, by=money.wasted_usd)


def _fill_account(gauges: FleetGauges, view: AccountView) -> None:
    at = (view.pool, view.account)
    gauges.streams.set(*at, to=view.streams)
    gauges.tokens.set(*at, to=view.tokens_last_hour)
    gauges.refusals.set(*at, to=view.refusals_last_hour)
    limits = [(each.dimension, each.left, each.limit) for each in view.limits]
    if view.streams_limit is not None:
        limits.append(("streams", view.streams_limit - view.streams, view.streams_limit))
    for dimension, left, limit in limits:
        gauges.left.set(*at, dimension, to=left)
        gauges.limit.set(*at, dimension, to=limit)
        gauges.headroom.set(*at, dimension, to=max(0.0, left / limit) if limit else 0)
