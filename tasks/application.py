"""The Celery app as tasks use it: it runs with the settings of this process."""

from __future__ import annotations

from settings.model import Settings
from tasks.current import current
from worker.app import app

__all__ = ["app"]


def _complete(_: Settings) -> Settings:
    return current()


app.complete = _complete
