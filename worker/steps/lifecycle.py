"""The life of a worker process, tied to Celery's signals.

Boot steps would be the natural place, but Celery stops them before the pool has drained, and the
lease keeper must outlive the last stream. So: the feeder starts when the worker is ready and
falls silent with the first stop signal; engine and keeper start with the first stream, or with
the feeder, and end when everything else has.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import redis
import structlog
from celery import Celery, signals
from kombu import Exchange, Queue

from settings.errors import SettingsError
from settings.model import Settings
from worker.attempt.work import Stop
from worker.engine import Engine
from worker.job.cancel import Close, Closed, finish, withdraw_and_seal
from worker.job.deadlines import expire
from worker.messages.publish import publish
from worker.messages.received import LISTENING
from worker.seeing.vitals import Vitals
from worker.steps import startup
from worker.steps.broker import discard, revive
from worker.steps.feeder import Feeder
from worker.steps.keeper import Keeper
from worker.steps.signals import one_at_a_time
from worker.store.connections import StoreUnreachable, opened
from worker.store.faults import words_of
from worker.store.keys import direct_queue

if TYPE_CHECKING:
    from worker.seeing.listener import Listener

_log = structlog.get_logger()


class Parts:
    """What runs in this process. One per process, also after a fork."""

    def __init__(self, app: Celery, worker: str) -> None:
        self.pid = os.getpid()
        self.engine = Engine(app.longstream, worker, stopping=lambda: _stopping[0] != 0)
        self.keeper = Keeper(
            self.engine,
            lambda job_id: _close(app, job_id, self.engine, finish),
            lambda job_id: _close(app, job_id, self.engine, expire),
        )
        self.engine.start()
        self.keeper.start()

    def close(self) -> None:
        self.keeper.close()
        self.engine.close()


#: How a job that waits comes to its end.
End = Callable[[Celery, redis.Redis, str, Close], object]

#: One byte that the children of a prefork pool share with the process that hears the signals.
_stopping = mmap.mmap(-1, 1)
_parts: Parts | None = None
_feeder: Feeder | None = None
_listener: Listener | None = None
_lock = threading.Lock()


def engine(app: Celery, worker: str) -> Engine:
    """The engine of this process, started on first use: under prefork, in the child."""
    global _parts
    with _lock:
        if _parts is None or _parts.pid != os.getpid():
            _parts = Parts(app, worker)
        return _parts.engine


def connect_signals() -> None:
    """Tie everything to Celery's signals; repeating it changes nothing."""
    signals.setup_logging.connect(startup.setup_logging)
    signals.celeryd_init.connect(startup.check)
    signals.celeryd_init.connect(startup.examine)
    signals.worker_init.connect(startup.shape)
    signals.worker_init.connect(_consume_own_queue)
    signals.worker_ready.connect(_start)
    signals.worker_shutting_down.connect(_quiet)
    signals.worker_shutdown.connect(_end)


def _consume_own_queue(sender: Any = None, **_: Any) -> None:
    """Beside the shared queue. Without an exchange it leaves no binding behind in the broker;
    Celery gives every queue one, so it is taken away again. What is granted needs no receipt: a
    message that is lost comes back when the hand-off of its lease is over, and to note and to
    clear each one took two calls of the broker and a quarter of a short job's CPU.
    """
    name = direct_queue(str(sender.hostname))
    sender.app.amqp.queues.select_add(Queue(name, routing_key=name, no_ack=True))
    sender.app.amqp.queues[name].exchange = Exchange("")


def _start(sender: Any = None, **_: Any) -> None:
    try:
        _start_parts(
            sender.app, str(sender.hostname), threads="thread" in type(sender.pool).__module__
        )
    except SettingsError as error:
        _log.error("worker.not_started", error=str(error))
        raise SystemExit(1) from None
    except Exception as error:
        _log.exception("worker.not_started", error=type(error).__name__)
        raise SystemExit(1) from error


def _start_parts(app: Celery, worker: str, *, threads: bool) -> None:
    global _feeder
    settings: Settings = app.longstream
    begun = engine(app, worker) if threads else None
    _feeder = Feeder(
        settings,
        worker,
        publish=lambda client, lease: publish(app, client, worker, lease),
        cancel=_stop_stream,
        close=lambda job_id: _close(app, job_id, begun, finish),
        discard=lambda queue: discard(app, queue),
        revive=lambda older_than_s: revive(app, older_than_s),
        # Under prefork it is the children who know; they are few, and start together.
        running=None if begun is None else lambda: begun.running,
        listening=lambda: LISTENING.is_set() and (begun is None or begun.turns),
    )
    listening = _listen(settings, _feeder) if threads else None
    _feeder.start()
    # A supervisor may send two in a row, to the process and to its group.
    one_at_a_time(signal.SIGTERM)
    _log.info("worker.ready", worker=worker, slots=settings.worker.concurrency, listen=listening)


def _listen(settings: Settings, feeder: Feeder) -> str | None:
    """Answer probes and scrapes, if that is wanted; where. Children of prefork have no address."""
    global _listener
    if settings.worker.listen is None:
        return None
    from worker.seeing.listener import Listener

    assert _parts is not None
    vitals = Vitals(settings.worker, _parts.engine, _parts.keeper, feeder)
    _listener = Listener(settings, vitals)
    return _listener.start(settings.worker.listen)


def _stop_stream(job_id: str) -> None:
    if _parts is not None and _parts.pid == os.getpid():
        _parts.engine.stop(job_id, Stop.CANCEL)


def _close(app: Celery, job_id: str, engine: Engine | None, end: End) -> None:
    """End a job that waits, which may take a provider's time. Without an engine, as under prefork,
    its response goes on."""
    threading.Thread(target=_closed, args=(app, job_id, engine, end), daemon=True).start()


def _closed(app: Celery, job_id: str, engine: Engine | None, end: End) -> None:
    settings: Settings = app.longstream

    def close() -> Closed:
        if engine is None:
            return withdraw_and_seal(client, settings, job_id)
        return engine.close_waiting(job_id)

    try:
        with opened(settings.store_url) as client:
            end(app, client, job_id, close)
    except (redis.RedisError, StoreUnreachable) as error:
        # Its note is still there, for whoever looks next.
        _log.warning("job.not_closed", job=job_id, says=words_of(error))


def _quiet(sender: Any = None, how: str = "", **_: Any) -> None:
    again = _stopping[0] != 0
    _stopping[0] = 1
    if _feeder is not None:
        _feeder.quiet()
    if _parts is not None:
        # Asked twice: hand everything back at once, which is quicker and loses nothing.
        _parts.engine.drain(0 if again else _parts.engine.settings.worker.drain_s)
        # So that the line hears at once of a worker that takes nothing any more.
        _parts.keeper.rouse()
    # No logging here: this runs in a signal handler.


def _end(**_: Any) -> None:
    global _parts, _feeder, _listener
    # From here on a signal finds nothing to tell: it must not wait for a lock that this one holds.
    parts, feeder = _parts, _feeder
    _parts = _feeder = None
    if feeder is not None:
        feeder.close()
    if parts is not None and parts.pid == os.getpid():
        parts.close()
    if _listener is not None:
        _listener.close()
        _listener = None
