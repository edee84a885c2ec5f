"""The accounts of a job that no worker will run again, brought up to date by who seals it."""

from __future__ import annotations

from typing import Any

import redis

from worker.ledger import booking
from worker.ledger.booking import Payer
from worker.ledger.spending import unsaid
from worker.log.claim import Claim
from worker.log.stored import read_stored
from worker.store.connections import now_ms
from worker.store.keys import job_keys
from worker.store.scripts import run


def catch_up(client: redis.Redis, job_id: str, claim: Claim) -> None:
    """Write into the record what earlier attempts used without saying so."""
    account, before = claim.account, claim.attempt - 1
    if before <= account.accounted:
        return
    stored = read_stored(client.execute_command, job_keys(job_id).log)
    earlier = [each for each in stored if each.at.attempt <= before]
    prompt = account.ticket.prompt
    spent = unsaid(earlier, account.accounted, claim.mode, prompt, claim.began_ms)
    run(client, booking.account(job_id, before, spent))


def book_recorded(client: redis.Redis, job_id: str, claim: Claim, kept_s: int) -> None:
    """Book what the record has and the books lack."""
    upto = claim.attempt - 1
    payer = Payer(job_id=job_id, task=claim.account.task, tenant=claim.account.ticket.tenant)
    replies = [booking.STALE]
    while booking.STALE in replies:
        read_ms = now_ms(client)
        raw: Any = client.hgetall(job_keys(job_id).record)
        spent = booking.unbooked(raw, upto)
        calls = [booking.book(payer, each, read_ms=read_ms, kept_s=kept_s) for each in spent]
        replies = [run(client, call) for call in calls]
    if spent:
        run(client, booking.booked(job_id, upto))
    for each in spent:
        run(client, booking.forget(payer, each))
