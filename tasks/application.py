"""The Celery app as tasks use it: it runs with the settings of this process."""

from __future__ import annotations

from tasks.current import use
from worker.app import app

__all__ = ["app"]

app.complete = use
