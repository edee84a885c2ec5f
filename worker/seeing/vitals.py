"""Whether this worker process works: its loop turns, it renews, and it asks the line for jobs.

A store that is away makes nobody ill here: to end a worker for it would throw away the text it
holds until the store is back. What the store says of the whole fleet is `readiness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from settings.model import WorkerSettings
from worker.seeing.meters import Gauge
from worker.store.connections import BLOCK_S, CONNECT_TIMEOUT_S, SHORT_TIMEOUT_S, SOCKET_TIMEOUT_S

#: What a step may take beyond every wait it knows of, in seconds.
_GRACE_S = 10.0


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that must hold. `remedy` is what to do when it does not."""

    check: str
    ok: bool
    says: str
    remedy: str = ""


class Turning(Protocol):
    def idle_s(self) -> float: ...


class Loop(Turning, Protocol):
    draining: bool

    def held(self) -> Sequence[object]: ...


@dataclass(frozen=True, slots=True)
class Vitals:
    """Of one worker process."""

    worker: WorkerSettings
    loop: Loop
    keeper: Turning
    feeder: Turning

    def checks(self) -> list[Check]:
        """Each part, and how long ago it last moved."""
        waits_s = {
            "loop": (self.loop, self.worker.lease_s),
            "keeper": (
                self.keeper,
                self.worker.renew_s + SHORT_TIMEOUT_S + CONNECT_TIMEOUT_S + _GRACE_S,
            ),
            "feeder": (
                self.feeder,
                BLOCK_S + SOCKET_TIMEOUT_S + CONNECT_TIMEOUT_S + _GRACE_S,
            ),
        }
        return [_check(name, part, limit_s) for name, (part, limit_s) in waits_s.items()]

    def gauges(self) -> list[Gauge]:
        own = ProcessGauges()
        own.slots.set(to=0 if self.loop.draining else self.worker.concurrency)
        own.leases.set(to=len(self.loop.held()))
        own.draining.set(to=int(self.loop.draining))
        for name, part in (("loop", self.loop), ("keeper", self.keeper), ("feeder", self.feeder)):
            own.idle.set(name, to=part.idle_s())
        return [own.slots, own.leases, own.draining, own.idle]


class ProcessGauges:
    """What a worker process is doing now."""

    def __init__(self) -> None:
        self.slots = Gauge("worker_slots", "Streams this worker takes at a time.")
        self.leases = Gauge("worker_leases", "Leases this worker holds and renews.")
        self.draining = Gauge("worker_draining", "1 while it takes nothing new.")
        self.idle = Gauge(
            "worker_idle_seconds",
            "Since a part of the worker last moved: its loop, the keeper of leases, the feeder.",
            ("part",),
        )


def _check(name: str, part: Turning, limit_s: float) -> Check:
    idle_s = part.idle_s()
    ok = idle_s <= limit_s
    says = f"moved {idle_s:.1f} s ago" if ok else f"has not moved for {idle_s:.0f} s"
    return Check(check=name, ok=ok, says=says, remedy="" if ok else "end this worker")
