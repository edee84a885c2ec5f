"""Celery's control, as far as it can keep a promise: `revoke` cancels jobs, and for good.

Celery's own revoke is a broadcast that workers remember until they are restarted, and ours do not
listen to. What is no job of ours is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery.app.control import TERM_SIGNAME, Control

from worker.errors import UnknownJob
from worker.job.cancel import cancel
from worker.store.connections import opened, require


class DurableControl(Control):
    """`result.revoke()`, `group_result.revoke()` and `app.control.revoke(id)` end up here."""

    def revoke(
        self,
        task_id: str | Iterable[str],
        destination: Any = None,
        terminate: bool = False,
        signal: Any = TERM_SIGNAME,
        **options: Any,
    ) -> Any:
        """Cancel every job among the ids; `terminate` makes no difference to one.

        Raises StoreUnreachable.
        """
        ids = [task_id] if isinstance(task_id, str) else list(task_id)
        others = [each for each in ids if not self._cancelled(each)]
        if not others:
            return None
        return super().revoke(others, destination, terminate, signal, **options)

    def _cancelled(self, job_id: str) -> bool:
        settings = self.app.longstream
        with opened(settings.store_url) as client:
            require(client, settings.store_url)
            try:
                cancel(self.app, client, settings, job_id)
            except UnknownJob:
                return False
        return True
