"""The Celery app, configured from the settings when it is first used.

Celery executes and does not queue: what reaches the broker has been granted a lease, and waits
behind nothing. Hence early ack and no prefetch; delay, retry, cancel and deadline are ours, since
each is missing or unsafe in some Celery pool.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from kombu import Queue
from msgspec.structs import replace

from settings import load
from settings.errors import SettingsError
from settings.model import Settings
from settings.urls import for_celery
from worker.steps import lifecycle
from worker.steps.startup import worker_name as worker_name

#: What `task.delay()` from another language or by name lands in; the worker puts it in the line.
SHARED_QUEUE = "longstream"


class LongstreamApp(Celery):
    """A Celery app that carries its settings as `longstream`."""

    control_cls = "worker.messages.control:DurableControl"

    #: Has the last word on the settings; set by who can start a Redis when none is configured.
    complete: Callable[[Settings], Settings] | None = None
    _longstream: Settings | None = None

    @property
    def longstream(self) -> Settings:
        """The settings, loaded on first use. Raises SettingsError."""
        if self._longstream is None:
            self.use(load())
        assert self._longstream is not None
        return self._longstream

    def use(self, settings: Settings) -> None:
        """Run with these settings. Only before the first use of `conf`."""
        if self.complete is not None:
            settings = self.complete(settings)
        if settings.redis_url is None:
            raise SettingsError(
                ["no Redis is configured: set LONGSTREAM_REDIS_URL, or use `longstream worker`"]
            )
        self._longstream = settings

    def resize(self, concurrency: int) -> None:
        """Run so many streams at a time in this process."""
        worker = replace(self.longstream.worker, concurrency=concurrency)
        self._longstream = replace(self.longstream, worker=worker)

    def on_configure(self) -> None:
        self._config_source = celery_config(self.longstream)


def modules_of(settings: Settings) -> list[str]:
    """Where the user's own tasks are."""
    return [name.strip() for name in (settings.task_modules or "").split(",") if name.strip()]


def celery_config(settings: Settings) -> dict[str, Any]:
    """Celery's settings. The reasons for the less obvious ones stand beside them."""
    broker = settings.broker_url or settings.redis_url or ""
    results = settings.result_url or settings.redis_url or ""
    return {
        "broker_url": for_celery(broker),
        "broker_use_ssl": _verified(broker),
        "result_backend": for_celery(results),
        "redis_backend_use_ssl": _verified(results),
        "imports": modules_of(settings),
        "result_expires": settings.retention.record_s,
        "worker_consumer": "worker.messages.received:ToughConsumer",
        "task_default_queue": SHARED_QUEUE,
        "task_queues": [Queue(SHARED_QUEUE, exchange="", routing_key=SHARED_QUEUE)],
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        # Late ack starts a second copy of every running task at each broker hiccup, and on 5.7.0
        # a broker restart ends the worker.
        "task_acks_late": False,
        "worker_disable_prefetch": True,
        "worker_prefetch_multiplier": 1,
        "worker_enable_prefetch_count_reduction": False,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_pool_acquire_timeout": 10.0,
        "task_publish_retry_policy": {
            "max_retries": 3,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
        # Without socket timeouts a worker behind a silent network never consumes again.
        "broker_transport_options": {
            "socket_timeout": 5.0,
            "socket_connect_timeout": 5.0,
            "socket_keepalive": True,
            "health_check_interval": 5,
            "max_connections": settings.worker.concurrency + 20,
            "visibility_timeout": 86_400,
        },
        "redis_socket_timeout": 15.0,
        "redis_socket_connect_timeout": 5.0,
        "redis_socket_keepalive": not results.startswith("unix:"),
        "redis_backend_health_check_interval": 5,
    }


def _verified(url: str) -> dict[str, Any] | None:
    """kombu fills in CERT_NONE for a bare rediss:// URL; certificates are always checked here."""
    if urlsplit(url).scheme != "rediss":
        return None
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}


app = LongstreamApp(
    "longstream",
    include=["worker.doctor.probe", "tasks.batch", "tasks.generate", "tasks.refactor"],
)

lifecycle.connect_signals()
