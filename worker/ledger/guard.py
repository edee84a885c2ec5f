"""Holds one attempt to what its job, its tenant and the day may cost.

Before the stream: a budget of the day that is used up holds the job back or ends it. While it
streams, every token counts with its price; the job's own limit stops it, and a day's does where
its action says so. What was said stays, and is paid for.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import structlog

from settings.model import Settings
from settings.prices import Price
from worker.ledger.cost import cost_of, exact
from worker.ledger.limits import Limit, Over
from worker.ledger.paying import Paying
from worker.ledger.purse import Purse
from worker.ledger.totals import cost_of_all
from worker.log.entries import Mode, Tokens
from worker.store.faults import words_of

#: How often a stream looks at the budgets of the day, in seconds.
_LOOK_S = 1.0
#: A job that is held is looked at again at least so often, in seconds: budgets can be raised.
_HELD_S = 600.0
_MILLION = 1_000_000
#: How many tokens a stream brings between two times it tells them: what they cost is far below what
#: a budget is kept to, and a call for each would be felt.
_TOLD_EVERY = 16

T = TypeVar("T")

_log = structlog.get_logger()


@dataclass(slots=True)
class Guard:
    """Of one attempt. `stop` ends its stream; `reason` says then why."""

    settings: Settings
    purse: Purse
    paying: Paying
    stop: Callable[[], None]
    reason: str = ""
    _produced: int = 0
    #: Tokens of the answer that may still be produced.
    _most: float = math.inf
    _warned: set[str] = field(default_factory=set)

    @property
    def _tenant(self) -> str:
        return self.paying.payer.tenant

    async def before(self) -> Over | None:
        """What forbids to begin, if anything does."""
        if self.paying.claim.mode is Mode.REATTACH:
            # It goes on at the provider anyhow, and is paid for.
            return None
        for limit in await self.purse.limits(self._tenant, self.paying.now_ms()):
            if limit.left <= 0 and not self._is_warning(limit.over()):
                return limit.over()
        return await self._job_over()

    async def watching(self, stream: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The stream, held to its budgets."""
        if not self.purse.is_watched:
            return await stream()
        number = self.purse.begin(self._tenant, self.so_far)
        looking = asyncio.create_task(self._look())
        try:
            return await stream()
        finally:
            looking.cancel()
            self.purse.end(number)
            await asyncio.wait({looking})

    def produced(self, tokens: int) -> float:
        """Called as the answer comes, with the tokens of it so far. At how many to call again."""
        self._produced = tokens
        if tokens > self._most and not self.reason:
            self.reason = f"stopped by the job's budget of {self._limit()} USD"
            self.stop()
        return math.inf if self.reason else min(self._most + 1, tokens + _TOLD_EVERY)

    def so_far(self) -> Decimal:
        """What this attempt has cost up to now, as far as prices are known."""
        tokens = Tokens(input=self.paying.claim.account.ticket.prompt, output=self._produced)
        return cost_of(tokens, self._price()).usd

    async def _job_over(self) -> Over | None:
        limit = self._limit()
        if limit is None:
            return None
        spent = cost_of_all(await self.paying.spent_before(), self.settings).usd
        left = limit - spent - self.so_far()
        if left <= 0:
            return Over(f"budget of the job: {spent:.4f} of {limit} USD are spent", "stop", 0)
        output = self._price().output
        if output:
            self._most = math.floor(left / exact(output) * _MILLION)
        return None

    def _limit(self) -> Decimal | None:
        """What the whole job may cost: as it was submitted, else as the settings say."""
        micros = self.paying.claim.account.max_cost_micros
        if micros:
            return Decimal(micros) / _MILLION
        own = self.settings.tenants.get(self._tenant)
        for budget in (own, self.settings.budget):
            if budget is not None and budget.job_usd is not None and budget.action != "warn":
                return exact(budget.job_usd)
        return None

    async def _look(self) -> None:
        """Now and then, whether the day's budgets still allow the stream."""
        while not self.reason:
            await asyncio.sleep(_LOOK_S)
            for limit in await self._limits():
                if limit.left > 0 or self._is_warning(limit.over()) or limit.action == "hold":
                    continue
                self.reason = f"stopped by the {limit.over().reason}"
                self.stop()
                return

    async def _limits(self) -> list[Limit]:
        """The budgets of the day; none when they can not be read: a stream that has begun is not
        given up for that."""
        try:
            return await self.purse.limits(self._tenant, self.paying.now_ms())
        except Exception as error:
            says = words_of(error)
            if says not in self._warned:
                self._warned.add(says)
                _log.error("budget.unread", job=self.paying.job_id, says=says)
            return []

    def _is_warning(self, over: Over) -> bool:
        if over.action != "warn":
            return False
        if over.reason not in self._warned:
            self._warned.add(over.reason)
            _log.warning("budget.exceeded", job=self.paying.job_id, reason=over.reason)
        return True

    def _price(self) -> Price:
        return self.settings.price(self.paying.model)


def held_s(over: Over, now_ms: int) -> float:
    """How long a job waits before it looks again: not all at the same moment."""
    left_s = max(0.0, (over.until_ms - now_ms) / 1000)
    return min(left_s, _HELD_S) + random.uniform(0, 5)  # noqa: S311
