"""What Celery's result backend hears of a job that will not have a result."""

from __future__ import annotations

from typing import Any

from celery import states
from celery.exceptions import TaskRevokedError


def revoke(backend: Any, request: Any, reason: str) -> None:
    """REVOKED for whoever waits for the task, alone, in a chord, or for what follows it.

    Celery's own `mark_as_revoked` forgets the rest of a chain, which would wait for ever.
    """
    backend.mark_as_failure(
        request.id,
        TaskRevokedError(str(reason)),
        request=request,
        call_errbacks=False,
        state=states.REVOKED,
    )
