"""How the worker logs: structlog, readable on a terminal, JSON lines elsewhere.

Celery's own lines, and those of every other library, go through the same steps; the last one takes
out what is or looks like a credential. What the events mean stands in docs/events.md. The logger
that prints what a task returned is kept quiet: a return value is an answer, and answers are never
logged.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

import structlog

from worker.seeing import redaction

#: celery.app.trace prints the return value of each task at INFO, celery.pool the whole request
#: at DEBUG, and celery.worker.strategy what `job.claimed` says a moment later.
_QUIET = {
    "celery.pool": logging.INFO,
    "celery.app.trace": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
}

#: The arguments of Celery's log lines that name the fault, by how the lines begin.
_DISCARDED = {
    "Received unregistered task": "no task of this name: %s",
    "Received invalid task message": "no valid task message: %s",
    "Can't decode message body": "no readable body: %s",
    "Received and deleted unknown message": "no task message",
}

_log = structlog.get_logger()


def configure(level: int = logging.INFO, stream: Any = None) -> None:
    """Send structlog and stdlib records to `stream` (stderr) in one format."""
    # A formatted traceback is a text like any other. One that is left to a renderer shows locals.
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [_handler(stream or sys.stderr, shared)]
    root.setLevel(level)
    consumer = logging.getLogger("celery.worker.consumer.consumer")
    if not any(isinstance(known, _WithoutBodies) for known in consumer.filters):
        consumer.addFilter(_WithoutBodies())
    for name, floor in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, floor))


def _handler(stream: Any, shared: list[Any]) -> logging.Handler:
    renderer: Any = structlog.processors.JSONRenderer()
    if stream.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                redaction.processor,
                renderer,
            ],
        )
    )
    return handler


def report_what_nobody_caught() -> None:
    """Log warnings, and exceptions that end a thread or the process, instead of printing them."""
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda lost: _uncaught(lost.exc_type, lost.exc_value, lost.exc_traceback)


def _uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit) or error is None:
        sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]
        return
    _log.critical("process.uncaught", exc_info=(kind, error, trace))


class _Handler(logging.StreamHandler[Any]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """The line itself is at fault, and its arguments may be anything: only say whose it was."""
        # Where the stream is gone, there is nobody left to tell.
        with suppress(OSError, ValueError):
            line = {"event": "log.unreadable", "level": "error", "logger": record.name}
            self.stream.write(json.dumps(line) + self.terminator)
            self.flush()


class _WithoutBodies(logging.Filter):
    """Reduces Celery's reports of discarded messages to one line without their contents."""

    def filter(self, record: logging.LogRecord) -> bool:
        for start, fault in _DISCARDED.items():
            if str(record.msg).startswith(start):
                args = record.args if isinstance(record.args, tuple) else ()
                record.msg = f"a message was discarded: {fault}"
                record.args = args[: fault.count("%s")]
                record.exc_info = None
        return True
