"""Every Redis key longstream uses; no other file writes one.

All keys of a job share the hash tag `{<job id>}`, all keys of a pool the tag `{<pool>}`, so
that a Redis Cluster can spread jobs over shards and still run each script on one of them.

Everything of a job has a TTL from its seal on. What has none while nothing runs or waits stands in
`lasting_keys`, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import msgspec

#: Job ids by submission time (ms), for listings; pruned at each submit.
JOBS = "ls:jobs"

#: Job ids whose submit or cancel has begun and not ended, by time (ms). One that stays is a crash.
SUBMITTING = "ls:submitting"

#: Pool -> how many of its jobs were cancelled while no worker ran them. Whoever cancels seals them,
#: and nobody could ask that process for numbers.
CANCELLED = "ls:cancelled"

#: Job ids by their deadlines (ms), of jobs that have one; forgotten once that has passed.
DEADLINES = "ls:deadlines"

#: Token id -> JSON: who may call the gateway; see tokens.py.
TOKENS = "ls:tokens"


#: Attempts whose spending is in the books, and whose job's record may not say so yet, by the time
#: (ms) they may be forgotten. It shares a shard with the books of every day.
ENTERED = "ls:{books}:entered"


def books_key(day: str) -> str:
    """What was spent on a UTC day: a hash, gone when its retention is over."""
    return f"ls:{{books}}:{day}"


_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
#: In words, for who chose another.
JOB_ID_SHAPE = "letters, digits and ._:- can be one, up to 128 of them, and no sign comes first"


def is_job_id(text: str) -> bool:
    """Whether a job can have this id."""
    return _JOB_ID.fullmatch(text) is not None


class JobKeys(msgspec.Struct, frozen=True):
    """`record` is a hash, `log` a stream, `tombstone` a string: the outcome of an ended job, which
    outlives both."""

    record: str
    log: str
    tombstone: str


def job_keys(job_id: str) -> JobKeys:
    own = f"ls:{{{job_id}}}"
    return JobKeys(record=f"{own}:job", log=f"{own}:log", tombstone=f"{own}:gone")


class RunKeys(msgspec.Struct, frozen=True):
    """`record` is a string, what the run consists of; `written` a hash, path -> JSON list of the
    SHA-256 of everything the run has put there. Both have a TTL from the start."""

    record: str
    written: str


def run_keys(run_id: str) -> RunKeys:
    own = f"ls:{{{run_id}}}"
    return RunKeys(record=f"{own}:run", written=f"{own}:written")


class PoolKeys(msgspec.Struct, frozen=True):
    """One pool's waiting line, leases and limits. Every script takes all of them, in this order.

    urgent, normal, bulk   zset    job id by its turn: jobs ready to be granted, by class
    delayed  zset    job id by due time (ms): jobs that may not be granted yet
    tickets  hash    job id -> JSON, from submit to the last settle; see tickets.lua
    leases   zset    job id by expiry (ms)
    held     hash    job id -> JSON, the lease; see picking.lua
    load     hash    worker -> leases it holds
    workers  zset    worker by the time (ms) until which it counts as alive
    slots    hash    worker -> how many streams it can run
    counter  string  last lease number given
    nudge    list    wake-ups for workers that sleep with a free slot
    fair     string  virtual times of the classes, and the pace of the line; see progress.lua
    turns    hash    class and tenant -> virtual time of its next job; gone when the line is empty
    sizes    hash    task, model and effort -> JSON: how long its answers are
    buckets  hash    account, or account and family -> what is used of it; see states.lua, days.lua
    rests    hash    what is kept out of use -> JSON: until when, and why; see rests.lua
    learned  hash    account, or account and family -> JSON: limits lower than those configured
    spent    hash    account, quantity and 5 minutes -> how much
    alarm    string  who of the sleeping workers wakes up next, and when
    blocked  string  JSON: what the next job waits for
    epoch    hash    identity of this state; another one means that the store lost it
    inbox    prefix  of a list per worker: wake-ups and cancels for that one
    """

    urgent: str
    normal: str
    bulk: str
    delayed: str
    tickets: str
    leases: str
    held: str
    load: str
    workers: str
    slots: str
    counter: str
    nudge: str
    fair: str
    turns: str
    sizes: str
    buckets: str
    rests: str
    learned: str
    spent: str
    alarm: str
    blocked: str
    epoch: str
    inbox: str

    def all(self) -> list[str]:
        return [getattr(self, name) for name in self.__struct_fields__]


@cache
def pool_keys(pool: str) -> PoolKeys:
    return PoolKeys(*(f"ls:{{{pool}}}:{name}" for name in PoolKeys.__struct_fields__))


#: What a pool keeps while nothing runs or waits: the fence, who is alive, and who wakes next.
_LASTING = (
    *("counter", "workers", "slots", "epoch", "alarm"),
    # What accounts have used and were told, and how long answers are: bounded by the configuration.
    *("buckets", "fair", "learned", "rests", "sizes", "spent"),
)
#: What the broker knows of the one shared queue.
_BROKER = ("_kombu.binding.longstream", "_kombu.binding_permanent.longstream")


def lasting_keys(pools: Iterable[str]) -> frozenset[str]:
    """The keys that are kept for ever. Each is bounded, whatever the number of jobs."""
    of_pools = (getattr(pool_keys(pool), name) for pool in pools for name in _LASTING)
    return frozenset((JOBS, CANCELLED, DEADLINES, TOKENS, *_BROKER, *of_pools))


def inbox_key(pool: str, worker: str) -> str:
    return f"{pool_keys(pool).inbox}:{worker}"


def probe_key(nonce: str) -> str:
    """Set by a worker that ran a health probe; expires by itself."""
    return f"ls:probe:{nonce}"


def direct_queue(worker: str) -> str:
    """The broker queue only this worker consumes."""
    return f"longstream.{worker}"
