"""The engine: takes a job from the waiting line to its sealed log."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`celery -A worker worker` looks for `celery`; nothing else should load Celery by import."""
    if name == "celery":
        from settings.errors import SettingsError
        from worker.app import app

        try:
            app.longstream  # noqa: B018
        except SettingsError as error:
            raise SystemExit("\n".join(f"longstream: {line}" for line in error.problems)) from None
        return app
    raise AttributeError(name)
