"""The Celery app of this process, as a client of a cluster's."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery
from kombu import pools

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
        _disconnect()


def _disconnect() -> None:
    hang_up(app)
    pools.reset()
    app.amqp._producer_pool = None
    app._backend_cache = None
    app._local.__dict__.pop("backend", None)
    _collect()


def hang_up(client: Celery) -> None:
    """Close every connection of a client, which Celery leaves to the garbage collector."""
    # Results say good-bye to the server when they are collected.
    _collect()
    backend = client._local.__dict__.get("backend")
    if backend is not None:
        backend.result_consumer.stop()
        backend.client.connection_pool.disconnect()
    client.close()


def _collect() -> None:
    """Now, and not in the middle of another test: what Celery leaves open warns when it goes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
