"""The feeder: asks the line for work for this worker's free slots, and nothing else.

What it is granted it publishes to the worker's own queue, so no worker hoards what another could
start. With nothing to do it sleeps on the server, exactly as long as the last answer said, until
a submit, a settle or a cancel wakes it; with no slot free it only listens for its own inbox, and
takes no wake-up from a worker that has one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis
import structlog

from settings.model import Settings
from worker.admission import line
from worker.admission.line import Granted, Lease, Patience
from worker.job.submitting import relist
from worker.messages.publish import TaskLacking
from worker.seeing.meters import METERS
from worker.steps.keeper import ALIVE_BEATS
from worker.store.connections import BLOCK_S, connect
from worker.store.faults import forbids, passes, words_of
from worker.store.keys import direct_queue, inbox_key, pool_keys

#: Jobs handed over that may wait to be begun, for each second of the hand-off time, and at least. A
#: start takes about 7 ms, and twenty times that where a core is hard to get. A thousand at once
#: would outlast their hand-off time, and be granted again while their messages wait.
_AHEAD_PER_S = 6.4
_AHEAD_LEAST = 8
#: How soon it is looked whether some of them have begun, in seconds.
_AHEAD_S = 0.05

#: How soon it is looked whether this worker fetches messages again, in seconds.
_DEAF_S = 0.2

#: Pause after Redis or the broker did not answer, in seconds.
_PAUSE_S = 1.0
#: How long a job waits whose record can not be read, in seconds.
_SPOILED_S = 60.0
#: How long one waits whose task this worker lacks: others may have it, and ask meanwhile.
_LACKING_S = 15.0

#: How often fetched messages are looked for that nobody acknowledged, in seconds, and how old one
#: must be.
_SWEEP_S = 15.0
_FORGOTTEN_S = 60.0

_log = structlog.get_logger()


class Feeder:
    """Feeds until `close`.

    `publish` sends a granted job to this worker; when it raises, the lease lapses after the
    hand-off time and the job is granted again. `running` tells how many have begun; None: that is
    not known here. While it is not `listening`, what it was handed would not begin: others take it.
    """

    def __init__(
        self,
        settings: Settings,
        worker: str,
        *,
        publish: Callable[[redis.Redis, Lease], None],
        cancel: Callable[[str], None],
        close: Callable[[str], None],
        discard: Callable[[str], None],
        revive: Callable[[float], int],
        running: Callable[[], int] | None = None,
        listening: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._publish = publish
        self._cancel = cancel
        self._close = close
        self._discard = discard
        self._revive = revive
        self._running = running
        self._listening = listening
        self._ahead = max(_AHEAD_LEAST, int(settings.worker.handoff_s * _AHEAD_PER_S))
        self._revived_at = time.monotonic()
        self._epochs: dict[str, str] = {}
        self._closing = threading.Event()
        self._turned_at = time.monotonic()
        self._thread = threading.Thread(target=self._main, name="longstream-feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def idle_s(self) -> float:
        """Seconds since the last step, whatever came of it; 0 once it is told to be quiet."""
        return 0.0 if self._closing.is_set() else time.monotonic() - self._turned_at

    def quiet(self) -> None:
        """Ask for nothing any more. Safe in a signal handler."""
        self._closing.set()

    def close(self) -> None:
        """`quiet`, and wait until it is."""
        self.quiet()
        if not self._thread.is_alive():
            return
        try:
            with connect(self._settings.store_url) as client:
                pool = next(iter(self._settings.pools))
                line.wake(client, pool, self._worker, "quiet")
        except (redis.RedisError, OSError):
            _log.debug("feeder.not_woken")
        self._thread.join(BLOCK_S + _PAUSE_S)

    def _main(self) -> None:
        with connect(self._settings.store_url) as client:
            while not self._closing.is_set():
                self._turned_at = time.monotonic()
                try:
                    self._feed(client)
                except (redis.RedisError, OSError) as error:
                    _log.warning("feeder.store_unreachable", says=words_of(error))
                    self._closing.wait(_PAUSE_S)
                except Exception:
                    # A worker without its feeder would be deaf, and look alive.
                    _log.exception("feeder.failed")
                    self._closing.wait(_PAUSE_S)
            with suppress(redis.RedisError, OSError):
                client.delete(*self._inboxes())

    def _feed(self, client: redis.Redis) -> None:
        self._sweep()
        free, sleep_s = self._ask(client)
        if self._closing.is_set():
            return
        names = self._inboxes()
        if free:
            names += [pool_keys(pool).nudge for pool in self._settings.pools]
        woken: Any = client.blpop(names, timeout=max(0.001, min(sleep_s, BLOCK_S)))
        if (
            woken is not None
            and self._closing.is_set()
            and woken[0].decode() not in self._inboxes()
        ):
            # It was meant for whoever has a free slot, and this worker takes nothing any more.
            client.lpush(*woken)
            return
        while woken is not None:
            self._heard(woken[1].decode())
            woken = self._next(client)

    def _sweep(self) -> None:
        """Now and then, bring back what workers had fetched that died. Any number of them may."""
        if time.monotonic() < self._revived_at + _SWEEP_S:
            return
        self._revived_at = time.monotonic()
        if found := self._revive(_FORGOTTEN_S):
            _log.warning("broker.messages_revived", messages=found)

    def _ask(self, client: redis.Redis) -> tuple[int, float]:
        """Ask each pool; the slots left free, and how long nothing will change by itself."""
        slots = self._settings.worker.concurrency
        most = slots if self._running is None else min(slots, self._running() + self._ahead)
        listens = self._listening()
        if not listens:
            most = 0
        loads = self._loads(client)
        sleep_s, refused = math.inf, None
        for name in self._settings.pools:
            elsewhere = sum(loads.values()) - loads[name] + slots - most
            try:
                answer = self._granted(client, name, slots, elsewhere)
            except redis.ResponseError as error:
                # What is wrong with one pool must not keep the others waiting.
                refused = error
                continue
            loads[name] += len(answer.leases)
            if answer.sleep_ms is not None:
                sleep_s = min(sleep_s, answer.sleep_ms / 1000)
        if refused is not None:
            raise refused
        free = most - sum(loads.values())
        if free <= 0 and most < slots:
            sleep_s = min(sleep_s, _AHEAD_S if listens else _DEAF_S)
        return free, sleep_s

    def _granted(self, client: redis.Redis, pool: str, slots: int, elsewhere: int) -> Granted:
        worker = self._settings.worker
        call = line.grant(
            self._settings.pools[pool],
            self._settings.accounts,
            self._worker,
            slots=slots,
            elsewhere=elsewhere,
            handoff_ms=int(worker.handoff_s * 1000),
            alive_ms=int(worker.renew_s * ALIVE_BEATS * 1000),
            epoch=self._epochs.get(pool, ""),
            patience=Patience.of(worker),
        )
        answer = line.granted(pool, line.run(client, call))
        # What was granted waits for nothing else, which may fail.
        for lease in answer.leases:
            self._hand_over(client, lease)
        if self._epochs.get(pool, answer.epoch) != answer.epoch:
            _log.error("line.lost", pool=pool, jobs=relist(client, pool))
        self._epochs[pool] = answer.epoch
        for job_id, lost in answer.reclaimed:
            _log.warning("lease.reclaimed", job=job_id, worker=lost)
            METERS.reclaimed.add(pool)
        for gone in answer.gone:
            self._forget(client, pool, gone)
        return answer

    def _hand_over(self, client: redis.Redis, lease: Lease) -> None:
        self._turned_at = time.monotonic()
        try:
            self._publish(client, lease)
        except Exception as error:
            wait_s = _wait_s(error)
            _log.warning("job.not_published", job=lease.job_id, says=words_of(error), wait_s=wait_s)
            line.run(client, line.settle(lease, back=True, wait_ms=int(wait_s * 1000)))

    def _forget(self, client: redis.Redis, pool: str, worker: str) -> None:
        """Remove what a dead worker leaves behind, its inbox and its queue, and only then its name:
        whoever asks next is told again if this process dies on the way."""
        client.delete(inbox_key(pool, worker))
        try:
            self._discard(direct_queue(worker))
        except Exception as error:
            _log.warning("worker.queue_left", worker=worker, error=type(error).__name__)
            return
        client.zrem(pool_keys(pool).workers, worker)
        client.hdel(pool_keys(pool).slots, worker)

    def _loads(self, client: redis.Redis) -> dict[str, int]:
        pools = list(self._settings.pools)
        pipeline = client.pipeline(transaction=False)
        for pool in pools:
            pipeline.hget(pool_keys(pool).load, self._worker)
        return {pool: int(load or 0) for pool, load in zip(pools, pipeline.execute(), strict=True)}

    def _inboxes(self) -> list[str]:
        return [inbox_key(pool, self._worker) for pool in self._settings.pools]

    def _next(self, client: redis.Redis) -> tuple[str, bytes] | None:
        for name in self._inboxes():
            if (message := client.lpop(name)) is not None:
                assert isinstance(message, bytes)
                return name, message
        return None

    def _heard(self, message: str) -> None:
        what, _, job_id = message.partition(" ")
        if what == "cancel":
            self._cancel(job_id)
        elif what == "close":
            self._close(job_id)


def _wait_s(error: Exception) -> float:
    """How long a job waits that could not be published."""
    if isinstance(error, TaskLacking):
        return _LACKING_S
    spoiled = isinstance(error, redis.ResponseError) and not (passes(error) or forbids(error))
    return _SPOILED_S if spoiled else _PAUSE_S
