"""The engine: takes a job from the waiting line to its sealed log."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`celery -A worker worker` looks for `celery`; nothing else should load Celery by import."""
    if name == "celery":
        from worker.app import app

        return app
    raise AttributeError(name)
