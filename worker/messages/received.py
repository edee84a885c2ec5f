"""The messages a worker receives: none stops it, none is shown, and none is lost.

Celery puts the arguments of a task into its events, and the body of a message it cannot use into
the log; arguments are prompts. And a message without an id looks to it like a lost connection: it
reconnects and fetches the same message, for ever.

A message that was granted a lease comes through the worker's own queue, and is never acknowledged:
the lease decides what becomes of its job. One that came by name is a job's only trace until it is
in the line, so it is acknowledged behind that; should its worker die in between, `revive` brings
it back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from celery.exceptions import InvalidTaskError
from celery.worker.consumer import Consumer
from celery.worker.request import Request

from worker.messages.publish import LEASE_HEADER
from worker.store.keys import direct_queue


class QuietRequest(Request):
    """A received message whose arguments no event and no log line shows."""

    #: A message that came by name has been taken up, and its job is not in the line yet.
    _entering = False

    @property
    def argsrepr(self) -> str:
        return "()"

    @property
    def kwargsrepr(self) -> str:
        return "{}"

    @property
    def eta(self) -> None:
        """No job waits for its time in a worker's memory: it enters the line at once, and waits
        there."""
        return

    def on_accepted(self, pid: Any, time_accepted: Any) -> None:
        self._entering = LEASE_HEADER not in self.request_dict
        super().on_accepted(pid, time_accepted)

    def acknowledge(self) -> None:
        if self.delivery_info.get("routing_key") == direct_queue(str(self.hostname)):
            # Consumed without receipts, of which kombu's Redis transport is not aware.
            self.acknowledged = True
        elif not self._entering:
            super().acknowledge()

    def on_failure(self, exc_info: Any, *args: Any, **kwargs: Any) -> Any:
        """Called however a task ends that came by name: in the line, which Celery ignores, or with
        an error."""
        self._entering = False
        done = super().on_failure(exc_info, *args, **kwargs)
        self.acknowledge()
        return done


#: This process fetches messages: what it is handed while it is cut off from the broker only waits.
LISTENING = threading.Event()


class ToughConsumer(Consumer):
    """Discards a message that Celery can not even refuse, and tells when it is cut off."""

    def on_ready(self) -> None:
        LISTENING.set()
        super().on_ready()

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        LISTENING.clear()
        super().on_connection_error_after_connected(exc)

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        handle = super().create_task_handler(*args, **kwargs)

        def received(message: Any) -> None:
            try:
                handle(message)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                fault = InvalidTaskError(f"it is malformed ({type(error).__name__})")
                self.on_invalid_task(None, message, fault)

        return received
