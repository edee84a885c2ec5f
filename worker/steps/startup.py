"""What a worker takes from Celery's command line, and what it refuses, before it starts.

Celery's own defaults are the prefork pool, one node name per host, and two features that leave
keys in the broker. Here a value that was not given on the command line is ours instead.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import click
import structlog
from celery.utils.nodenames import default_nodename
from click.core import ParameterSource

from settings.errors import SettingsError
from worker.seeing.logging import configure, report_what_nobody_caught
from worker.seeing.redaction import know

#: Threads beyond the streams: a worker full of streams still answers probes, and takes the next
#: job while Celery finishes with the last one.
SPARE_THREADS = 4

_REFUSED_POOLS = {
    "gevent": "it allows one asyncio loop at a time and stops every heartbeat with one busy task",
    "eventlet": "its time limits and shutdown do not work, and its authors advise to leave it",
    "solo": "it runs one stream at a time",
}

_LISTENING = (
    "a prefork worker answers no /metrics and no probes: take the threads pool, the default, or"
    " unset worker.listen; the gateway's /metrics tells of the fleet"
)

_log = structlog.get_logger()


def worker_name() -> str:
    """A node name no other live process has: direct queues are named after it."""
    return f"longstream-{os.getpid()}@{socket.gethostname()}"


def setup_logging(loglevel: int | None = None, **_: Any) -> None:
    configure(loglevel or 20)
    report_what_nobody_caught()


def check(instance: Any = None, conf: Any = None, options: Any = None, **_: Any) -> None:
    """Refuse what can not work. Celery swallows what a signal handler raises, but SystemExit."""
    pool = str((options or {}).get("pool") or conf.worker_pool).lower()
    for refused, reason in _REFUSED_POOLS.items():
        if refused in pool:
            raise SystemExit(f"longstream: the Celery pool {refused} is refused: {reason}")
    try:
        instance.app.longstream.require_pools()
    except SettingsError as error:
        raise SystemExit(f"longstream: {error}") from None
    if instance.hostname == default_nodename(None):
        instance.hostname = worker_name()


def examine(instance: Any = None, **_: Any) -> None:
    """Say what is wrong with the servers, and refuse what can not work."""
    # The checks need the Celery app, which ties this module to its signals.
    from worker.doctor.checks import at_start

    know(instance.app.longstream)
    at_start(instance.app.longstream)


def shape(sender: Any = None, **_: Any) -> None:
    """Choose pool and size: the command line's, else ours."""
    if not _given("pool"):
        sender.pool_cls = "threads"
    app, prefork = sender.app, "prefork" in str(sender.pool_cls)
    if _given("concurrency") and isinstance(sender.concurrency, int):
        app.resize(sender.concurrency)
    slots = app.longstream.worker.concurrency
    sender.concurrency = slots if prefork else slots + SPARE_THREADS
    # Both leave reply queues and bindings of dead workers in the broker, and serve only features
    # that are off.
    sender.options |= {"without_mingle": True, "without_gossip": True}
    if prefork:
        _log.warning("worker.prefork", processes=slots, memory="about 75 times that of threads")
        if app.longstream.worker.listen is not None:
            # What is counted is counted in the children, and one address can not answer for them.
            _log.warning(
                "listener.unavailable", listen=app.longstream.worker.listen, remedy=_LISTENING
            )


def _given(option: str) -> bool:
    """True when the option stands on the command line or in Celery's environment."""
    context = click.get_current_context(silent=True)
    source = context and context.get_parameter_source(option)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
