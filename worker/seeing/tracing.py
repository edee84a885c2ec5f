"""One trace for each job: from its submit, through its grant and its message, to its last delta.

Off unless `tracing.endpoint` is set, and then nothing of it is imported. The context travels in the
headers of the job's message, first in its record and then through the broker. Spans carry names,
numbers and ids, never a prompt, an answer or a secret.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from settings.model import Tracing

if TYPE_CHECKING:
    from worker.seeing.spans import Traces

#: The header of a job's message that says which span it belongs to, as W3C traceparent.
HEADER = "longstream_trace"

Attributes = Mapping[str, str | int | float | bool]

_lock = threading.Lock()
_made: dict[tuple[int, Tracing], Traces | None] = {}


def traces(tracing: Tracing) -> Traces | None:
    """Where this process sends its spans; None when that is nowhere."""
    if tracing.endpoint is None:
        return None
    with _lock:
        # A child of a fork has no thread that sends.
        at = (os.getpid(), tracing)
        if at not in _made:
            _made[at] = _make(tracing)
        return _made[at]


def submitting(
    tracing: Tracing, headers: dict[str, Any], attributes: Attributes
) -> AbstractContextManager[None]:
    """The span of a submit; the message's headers say from now on which one it was."""
    return _noted("job.submit", tracing, headers, attributes)


def granting(
    tracing: Tracing, headers: dict[str, Any], attributes: Attributes
) -> AbstractContextManager[None]:
    """The span of a grant, from the lease to the broker's having the message."""
    return _noted("job.grant", tracing, headers, attributes)


@contextmanager
def _noted(
    name: str, tracing: Tracing, headers: dict[str, Any], attributes: Attributes
) -> Iterator[None]:
    sending = traces(tracing)
    if sending is None:
        yield
        return
    with sending.span(name, headers.get(HEADER), attributes) as header:
        headers[HEADER] = header
        yield


def flush(within_s: float = 2.0) -> None:
    """Send what is not sent yet, before a process ends."""
    for (pid, _), sending in list(_made.items()):
        if sending is not None and pid == os.getpid():
            sending.flush(within_s)


def _make(tracing: Tracing) -> Traces | None:
    try:
        from worker.seeing.spans import Traces
    except ImportError as error:
        import structlog

        structlog.get_logger().warning(
            "tracing.unavailable",
            error=str(error),
            remedy="pip install 'longstream[tracing]', or unset LONGSTREAM_TRACING__ENDPOINT",
        )
        return None
    assert tracing.endpoint is not None
    return Traces(tracing.endpoint, tracing.sample)
