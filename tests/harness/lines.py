"""A waiting line under test: one pool of accounts, submits and grants in one word each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from settings.model import Account, Key, Pool, Settings
from settings.secret import Secret
from worker.admission import answers, line
from worker.admission.line import IMPATIENT, Ending, Granted, Lease, Patience, Spent
from worker.admission.states import ScopeState, scope_state
from worker.admission.tickets import Ticket
from worker.log.entries import Tokens
from worker.store.keys import PoolKeys, pool_keys
from worker.upstream.failures import UpstreamFailure, failure_of_answer

POOL = "p"
KEYS: PoolKeys = pool_keys(POOL)


def key(alias: str, account: str | None = None, secret: str = "s") -> Key:
    return Key(
        alias=alias,
        provider="generic",
        base_url="http://127.0.0.1:1/v1",
        secret=Secret(secret),
        account=account or alias,
    )


@dataclass
class Line:
    """`accounts` by name; each has one key of its own name unless `keys` says otherwise."""

    client: redis.Redis
    accounts: dict[str, Account] = field(default_factory=dict)
    keys: tuple[Key, ...] = ()
    epoch: str = ""
    patience: Patience = IMPATIENT

    @property
    def pool(self) -> Pool:
        return Pool(name=POOL, keys=self.keys or tuple(map(key, self.accounts)))

    @property
    def settings(self) -> Settings:
        return Settings(pools={POOL: self.pool}, accounts=self.accounts)

    def submit(self, *jobs: str, wait_ms: int = 0, **ticket: Any) -> None:
        plain = {"tenant": "default", "priority": "normal", "model": "m", "kind": "k", "prompt": 1}
        for job in jobs:
            call = line.enqueue(POOL, job, Ticket(**(plain | ticket)), wait_ms=wait_ms)
            line.run(self.client, call)

    def ask(self, worker: str = "w1", *, slots: int = 1000, handoff_ms: int = 60_000) -> Granted:
        call = line.grant(
            self.pool,
            self.accounts,
            worker,
            slots=slots,
            elsewhere=0,
            handoff_ms=handoff_ms,
            alive_ms=60_000,
            epoch=self.epoch,
            patience=self.patience,
        )
        return line.granted(POOL, line.run(self.client, call))

    def grant(self, *, slots: int = 1000) -> list[str]:
        return [lease.job_id for lease in self.ask(slots=slots).leases]

    def one(self) -> Lease:
        (lease,) = self.ask().leases
        line.run(self.client, line.start(lease, "w1", "r1", lease_ms=60_000))
        return lease

    def settle(
        self,
        lease: Lease,
        used: int | None = None,
        *,
        back: bool = False,
        ending: Ending = "",
        sticky: str | None = None,
    ) -> bool:
        tokens = None if used is None else Tokens(input=0, output=used)
        call = line.settle(lease, back=back, spent=Spent(tokens, ending), sticky=sticky)
        return bool(line.run(self.client, call))

    def refuse(
        self,
        lease: Lease,
        status: int,
        headers: Mapping[str, str] | None = None,
        message: str = "no",
        code: str = "",
    ) -> str:
        """The provider refuses: the line is told, and the job put back if it says so."""
        body = json.dumps({"error": {"message": message, "code": code or None}}).encode()
        return self.fail(lease, failure_of_answer(status, headers or {}, body))

    def fail(self, lease: Lease, failure: UpstreamFailure) -> str:
        if failure.limits and (heard := answers.hear(self.settings, lease, failure.limits)):
            line.run(self.client, heard)
        rule = answers.ruling(failure)
        assert rule is not None
        call = answers.answer(self.settings, lease, rule, failure)
        verdict: str = line.run(self.client, call).decode()
        self.settle(lease, 0, back=verdict == "back", ending="refused")
        return verdict

    def used(self, scope: str) -> ScopeState:
        """What the store says is used of an account, or of a family of its models."""
        stored: Any = self.client.hget(KEYS.buckets, scope)
        return scope_state(stored)

    def streams(self) -> dict[str, int]:
        """Streams in use of every scope that has any."""
        names: Any = self.client.hkeys(KEYS.buckets)
        scopes = [name.decode() for name in names if not name.startswith(b"day ")]
        return {scope: used for scope in scopes if (used := self.used(scope).used)}

    def state(self, name: str, of: str) -> Any:
        stored: Any = self.client.hget(name, of)
        return None if stored is None else json.loads(stored)
