"""The lease keeper: one heartbeat per process for all its streams.

It has its own thread and its own connection, so neither a busy loop nor a full pool delays it,
and it runs until the very end of a shutdown, since streams outlive the consumer. It renews only
while the loop turns: a process that hangs must lose its jobs to one that does not.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import redis
import structlog

from worker.admission import line
from worker.admission.line import Held, Patience
from worker.attempt.work import Stop
from worker.engine import Engine
from worker.job.deadlines import overdue
from worker.job.submitting import sweep
from worker.seeing.meters import METERS
from worker.store.connections import SHORT_TIMEOUT_S, connect
from worker.store.faults import words_of
from worker.store.keys import job_keys

#: While an expired lease waits for a worker with a free slot, it is looked at this often (s).
_SHORTEST_S = 0.5

#: How often submits that crashed are looked for, in seconds, and how old one must be.
_SWEEP_S = 15.0
_CRASHED_MS = 10_000

#: Pause after the store did not answer, in seconds: leases must be renewed as soon as it does.
_PAUSE_S = 1.0

#: A worker counts as alive this many heartbeats after the last one.
ALIVE_BEATS = 3

_log = structlog.get_logger()


class Keeper:
    """Renews until `close`. Learns of lost leases and of cancels on the way. `end` ends a job that
    nobody holds, since it was cancelled, or `expire` since its deadline has passed."""

    def __init__(
        self, engine: Engine, end: Callable[[str], None], expire: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._end, self._expire = end, expire
        self._settings = engine.settings
        self._closing = threading.Event()
        self._roused = threading.Event()
        self._swept_at = -math.inf
        self._turned_at = time.monotonic()
        self._epochs: dict[str, str] = {}
        self._thread = threading.Thread(target=self._main, name="longstream-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def idle_s(self) -> float:
        """Seconds since the last try to renew, whatever came of it."""
        return time.monotonic() - self._turned_at

    def rouse(self) -> None:
        """Beat now. Safe in a signal handler."""
        self._roused.set()

    def close(self) -> None:
        self._closing.set()
        self.rouse()
        if self._thread.is_alive():
            self._thread.join()

    def _main(self) -> None:
        with connect(self._settings.store_url, SHORT_TIMEOUT_S) as client:
            while not self._closing.is_set():
                self._turned_at = time.monotonic()
                wait_s = self._settings.worker.renew_s
                try:
                    wait_s = min(wait_s, self._beat(client))
                    for job_id in overdue(client):
                        self._expire(job_id)
                    self._sweep(client)
                except (redis.RedisError, OSError) as error:
                    # Leases that lapse meanwhile are reported lost by the next beat.
                    _log.warning("lease.not_renewed", says=words_of(error))
                    METERS.not_renewed.add()
                    wait_s = min(wait_s, _PAUSE_S)
                except Exception:
                    _log.exception("keeper.failed")
                self._roused.wait(wait_s)
                self._roused.clear()

    def _beat(self, client: redis.Redis) -> float:
        """Renew everything; the seconds after which there may be a lease to reclaim."""
        turns = self._engine.turns
        if not turns:
            _log.error("engine.stuck", idle_s=round(self._engine.idle_s(), 1))
        held = self._engine.held() if turns else []
        wait_s, refused = math.inf, None
        for pool in self._settings.pools:
            its = [stream for stream in held if stream.lease.pool == pool]
            try:
                wait_s = min(wait_s, self._renew(client, pool, its))
            except redis.ResponseError as error:
                # What is wrong with one pool must not cost the others their leases.
                refused = error
        if refused is not None:
            raise refused
        return wait_s

    def _sweep(self, client: redis.Redis) -> None:
        """Now and then, finish submits and cancels that crashed on the way. Any number of workers
        may."""
        if time.monotonic() < self._swept_at + _SWEEP_S:
            return
        found = sweep(client, _CRASHED_MS)
        if not found.more:
            self._swept_at = time.monotonic()
        for job_id in found.entered:
            _log.warning("job.submit_finished", job=job_id)
        for job_id in found.cancelled:
            self._end(job_id)

    def _renew(self, client: redis.Redis, pool: str, streams: list[Held]) -> float:
        worker = self._settings.worker
        call = line.renew(
            pool,
            self._engine.worker,
            streams,
            # No slots: whoever frees something of this worker wakes another one.
            slots=0 if self._engine.draining else worker.concurrency,
            lease_ms=int(worker.lease_s * 1000),
            alive_ms=int(worker.renew_s * ALIVE_BEATS * 1000),
            epoch=self._epochs.get(pool, ""),
            patience=Patience.of(worker),
        )
        beat = line.beat(streams, line.run(client, call))
        self._epochs[pool] = beat.epoch
        for lease in beat.lost:
            self._engine.stop(lease.job_id, Stop.LOST)
        for lease in beat.cancelled:
            self._engine.stop(lease.job_id, Stop.CANCEL)
        for lease in beat.adopted:
            _log.warning("lease.adopted", job=lease.job_id)
            if client.hexists(job_keys(lease.job_id).record, "cancel_ms"):
                self._engine.stop(lease.job_id, Stop.CANCEL)
        if beat.expiry_ms is None:
            return math.inf
        if beat.expiry_ms == 0:
            # A feeder that went to sleep before this lease was granted does not know of it.
            line.wake(client, pool, self._engine.worker, "lease")
        return max(_SHORTEST_S, beat.expiry_ms / 1000)
