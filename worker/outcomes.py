"""How a job or an attempt can end. Kept apart on purpose: a cut stream is never a success."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The end of a job, as its seal carries it."""

    #: The provider said that the answer is whole.
    COMPLETED = "completed"
    #: The provider stopped at a length limit; the text is a true prefix.
    INCOMPLETE = "incomplete"
    #: A content filter stopped the answer.
    FILTERED = "filtered"
    #: The model declined to answer.
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    #: The stream was cut, and the job may not be tried again.
    INTERRUPTED = "interrupted"
    #: The job's deadline passed.
    EXPIRED = "expired"
