"""Cancelling a job, wherever it is. The request is durable; asking twice is fine.

A waiting job is sealed here, since no worker ever will; a running one is sealed by its worker,
which hears of it at once through its inbox and, should that be lost, with its next heartbeat. One
that waits while its response goes on at the provider is left to a worker, any that lives, since
only workers can stop that: it needs neither a slot nor room in a limit to do so. Without a worker
it is sealed here, and the response goes on to its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal

import redis
from celery import Celery
from celery.app.task import Context

from settings.model import Settings
from worker.admission import line
from worker.errors import UnknownJob
from worker.ledger.catching_up import book_recorded, catch_up
from worker.log import entries, reader
from worker.log.claim import claim_of
from worker.messages.message import Message
from worker.messages.results import revoke
from worker.outcomes import Outcome
from worker.store.connections import now_ms
from worker.store.keys import CANCELLED, SUBMITTING, job_keys, pool_keys
from worker.store.scripts import script

_CANCEL = script("worker.log", "cancel")
_CLAIM = script("worker.log", "claim")
_SEAL = script("worker.log", "seal")


#: What closing a job came to: how it ended, now or before; ELSEWHERE when it is another's, who
#: knows; None when that could not be found out.
Closed = Outcome | Literal[""] | None
Close = Callable[[], Closed]
ELSEWHERE: Literal[""] = ""


class Cancelled(StrEnum):
    """What became of the request."""

    #: The job is sealed as cancelled.
    DONE = "cancelled"
    #: Its worker was told.
    STOPPING = "stopping"
    #: It had ended before.
    ENDED = "ended"


def cancel(celery: Celery, client: redis.Redis, settings: Settings, job_id: str) -> Cancelled:
    """Raises UnknownJob."""
    keys = job_keys(job_id)
    state = _CANCEL.call(client, [keys.record], [])
    if state == b"unknown":
        raise UnknownJob(f"no job {job_id}: `longstream jobs` lists those that are known")
    if state == b"ended":
        return Cancelled.ENDED
    pool: Any = client.hget(keys.record, "pool")
    # Should this process, or whom it tells, die on the way, a worker finds the note.
    client.zadd(SUBMITTING, {job_id: now_ms(client)})
    if _left_to_a_worker(client, pool.decode(), job_id):
        return Cancelled.STOPPING
    done = finish(celery, client, job_id, lambda: withdraw_and_seal(client, settings, job_id))
    return Cancelled.DONE if done else Cancelled.STOPPING


def finish(celery: Celery, client: redis.Redis, job_id: str, close: Close) -> bool:
    """End a job whose cancel is noted; True when it was cancelled by that."""
    outcome = close()
    if outcome is Outcome.CANCELLED or outcome is Outcome.EXPIRED:
        tell_celery(celery, client, job_id, outcome)
    if outcome is not None:
        client.zrem(SUBMITTING, job_id)
    return outcome is Outcome.CANCELLED


def withdraw_and_seal(client: redis.Redis, settings: Settings, job_id: str) -> Closed:
    """Without stopping its response."""
    stored: Any = client.hget(job_keys(job_id).record, "pool")
    if stored is None:
        return ELSEWHERE
    pool = stored.decode()
    if line.run(client, line.withdraw(pool, job_id)) == b"held":
        return ELSEWHERE
    return _seal_waiting(client, settings, pool, job_id)


def _left_to_a_worker(client: redis.Redis, pool: str, job_id: str) -> bool:
    """Have a worker close the job, if its response goes on and nobody holds it."""
    names, record = pool_keys(pool), job_keys(job_id).record
    responses: Any = client.hmget(record, "resume", "left")
    if not any(responses) or client.hexists(names.held, job_id):
        return False
    alive: Any = client.zrangebyscore(names.workers, now_ms(client), "+inf")
    slots: Any = client.hgetall(names.slots)
    # Who was heard of last, and takes something.
    taking = [worker for worker in alive if int(slots.get(worker, 0)) > 0]
    if taking:
        line.wake(client, pool, taking[-1].decode(), f"close {job_id}")
    return bool(taking)


def _seal_waiting(client: redis.Redis, settings: Settings, pool: str, job_id: str) -> Closed:
    """Raise the fence and seal what text there is."""
    keys = job_keys(job_id)
    reply = _CLAIM.call(client, [keys.log, keys.record], [0, "", "", "close"])
    claim = claim_of(reply)
    if isinstance(claim, str):
        ended: Any = client.hget(keys.record, "outcome")
        return ELSEWHERE if ended is None else Outcome(ended.decode())
    catch_up(client, job_id, claim)
    attempt, text = claim.attempt, reader.text_of(client, job_id)
    end = entries.End(
        offset=len(text),
        outcome=Outcome.CANCELLED,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        attempts=attempt,
        reason="cancelled while it waited",
    )
    sealed = entries.encode(end)
    first = entries.check_of_first(claim.first)
    check = entries.check_behind(sealed, first)
    fields = ["reason", end.reason, "length", len(text)]
    place = [f"{attempt}-0", first, attempt, 1, sealed, check]
    args = [*place, Outcome.CANCELLED, *settings.retention.ages_s, *fields]
    if _SEAL.call(client, [keys.log, keys.record, keys.tombstone], args) != 1:
        return ELSEWHERE
    book_recorded(client, job_id, claim, settings.retention.spend_s)
    client.hincrby(CANCELLED, pool)
    return Outcome.CANCELLED


def tell_celery(celery: Celery, client: redis.Redis, job_id: str, outcome: Outcome) -> None:
    """Whoever waits for the task's result, alone or in a chord, gets REVOKED."""
    stored: Any = client.hget(job_keys(job_id).record, "message")
    if stored is None:
        return
    message = Message.load(stored)
    request = Context(message.headers, **message.body[2], args=[], kwargs={})
    revoke(celery.backend, request, outcome)
