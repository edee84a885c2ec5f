"""The Celery app of this process, as a client of a cluster's."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from settings.model import Settings
from tasks import current
from tasks.application import app
from worker.app import LongstreamApp, celery_config


@contextmanager
def client_of(settings: Settings) -> Iterator[LongstreamApp]:
    """The app with these settings; whatever it had connected to before is closed."""
    current.use(settings)
    app.use(settings)
    _disconnect()
    app.conf.update(celery_config(settings))
    try:
        yield app
    finally:
        # Results say good-bye to the server when they are collected.
        gc.collect()
        _disconnect()


def _disconnect() -> None:
    app.close()
    app._backend_cache = None
    app._local.__dict__.pop("backend", None)
