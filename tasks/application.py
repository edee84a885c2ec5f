"""The Celery app as tasks use it: without a Redis configured, it joins the embedded stack."""

from __future__ import annotations

from settings.model import Settings
from worker.app import app

__all__ = ["app"]


def _embedded(settings: Settings) -> Settings:
    from tasks.local.stack import Stack

    return Stack.default().ensure(settings)


app.complete = _embedded
