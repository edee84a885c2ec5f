"""What a reader is told, and done for it, when a part of the embedded stack is not there."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from settings.model import Settings
from tasks.current import is_embedded
from tasks.local.server import why_ended
from tasks.local.stack import Stack, StackError, state_directory
from worker.log.status import NO_WORKER
from worker.log.view import Status

#: A worker that was just started may take this long to be heard of, in seconds.
_STARTING_S = 15.0


class Embedded:
    """Sees every status of one follower. Only for jobs of the embedded stack.

    Raises StackError when the worker dies again and again without running the job.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = Stack(state_directory())
        self._since = time.monotonic()
        self._revivals = 0

    @classmethod
    def of(cls, settings: Settings) -> Embedded | None:
        """None when a Redis is configured; nothing is needed of this machine then."""
        return cls(settings) if is_embedded() else None

    def explained(self, status: Status) -> Status:
        """The status in terms of the stack. A worker that died is started again."""
        if status.state == "unreachable" and self._stack.valkey.pid() is None:
            return Status(
                state="stopped",
                detail="the embedded stack is down; any longstream command starts it again, "
                "and then the job goes on",
            )
        if status.state == "running":
            self._revivals = 0
        if self._stack.worker.pid() is None and self._revived(status):
            self._since = time.monotonic()
            if NO_WORKER not in status.detail:
                return Status(
                    state="lost",
                    detail="the worker has died; a new one starts, and takes over when the lease "
                    "of the old one ends",
                )
        if NO_WORKER not in status.detail:
            self._since = time.monotonic()
        if time.monotonic() - self._since > _STARTING_S:
            return status
        what = "a new one is starting" if status.state == "lost" else "the worker is starting"
        return msgspec.structs.replace(status, detail=status.detail.replace(NO_WORKER, what))

    def _revived(self, status: Status) -> bool:
        self._revivals += 1
        # A job may kill its workers, and is given up in the end; one that waits can not.
        patience = 1 if status.state == "waiting" else self._settings.worker.max_crashes
        if self._revivals > patience:
            raise StackError(why_ended(self._stack.state, self._stack.worker))
        return self._stack.revive(self._settings)


def explaining(settings: Settings) -> Callable[[Status], Status]:
    """What the embedded stack has to say to a status; it also revives a worker that died."""
    here = Embedded.of(settings)
    return here.explained if here else lambda status: status
