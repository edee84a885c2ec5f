"""How the worker logs: structlog, readable on a terminal, JSON lines elsewhere.

Celery's own lines go through the same renderer. The logger that prints what a task returned is
kept quiet: a return value is an answer, and answers are never logged.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from worker.received import WithoutBodies

#: celery.app.trace prints the return value of each task at INFO, celery.pool the whole request
#: at DEBUG.
_QUIET = {
    "celery.pool": logging.INFO,
    "celery.app.trace": logging.WARNING,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
}


def configure(level: int = logging.INFO, stream: Any = None) -> None:
    """Send structlog and stdlib records to `stream` (stderr) in one format."""
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = structlog.dev.ConsoleRenderer()
    if not stream.isatty():
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    consumer = logging.getLogger("celery.worker.consumer.consumer")
    if not any(isinstance(known, WithoutBodies) for known in consumer.filters):
        consumer.addFilter(WithoutBodies())
    for name, floor in _QUIET.items():
        logging.getLogger(name).setLevel(max(level, floor))
