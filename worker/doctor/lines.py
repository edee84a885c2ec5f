"""What `doctor` says of the waiting lines: keys that are out of use, and jobs that nobody takes."""

from __future__ import annotations

from collections.abc import Iterator

import redis

from settings.model import Settings
from worker.admission.overview import accounts
from worker.admission.waiting import queues


def out_of_use(client: redis.Redis, settings: Settings) -> Iterator[tuple[str, str]]:
    """Everything that rests, and what to do about it."""
    for view in accounts(client, settings):
        for rest in view.rests:
            if rest.left_s is None:
                alias = rest.what.removeprefix("key ")
                way_out = f"correct its secret, or run `longstream keys enable {alias}`"
                yield f"{rest.what} is out of use until repaired: {rest.cause}", way_out
            else:
                says = f"{rest.what} is out of use for {rest.left_s:.0f} s more: {rest.cause}"
                yield says, "wait; `longstream keys` shows what is used of its limits"


def waiting(client: redis.Redis, settings: Settings) -> Iterator[str]:
    """Each line in which jobs wait, and for what."""
    for queue in queues(client, settings, 1):
        if queue.waiting + queue.delayed:
            later = f", {queue.delayed} for a later time" if queue.delayed else ""
            first = f"; the first waits for {queue.first[0].waits_for}" if queue.first else ""
            yield f"pool {queue.pool}: {queue.waiting:,} waiting{later}{first}"
