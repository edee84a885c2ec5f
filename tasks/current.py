"""The settings this process uses: loaded once, completed by the embedded stack when needed."""

from __future__ import annotations

from collections.abc import Callable

from settings import load
from settings.model import Settings

_current: Settings | None = None
_embedded = False


def current() -> Settings:
    """Raises SettingsError, or StackError when the embedded stack can not be started."""
    if _current is None:
        use(load())
    assert _current is not None
    return _current


def use(
    settings: Settings, say: Callable[[str], None] = lambda _: None, *, serving: bool = True
) -> Settings:
    """Use these settings from now on. Without a Redis in them, start or join the embedded stack,
    telling `say` what is started. `serving`: its worker must run with these settings."""
    global _current, _embedded
    _embedded = settings.redis_url is None
    if _embedded:
        from tasks.local.stack import Stack

        settings = Stack.default(say).ensure(settings, serving=serving)
    _current = settings
    return settings


def is_embedded() -> bool:
    """Whether this process uses the embedded stack: a Redis that is configured has workers that are
    started by someone else."""
    return _embedded
