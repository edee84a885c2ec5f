"""The errors of the engine. "Not now" is a returned value, never one of these.

LongstreamError (settings.errors)
├── SettingsError
├── UpstreamFailure (worker.upstream.failures)   what a provider or the network did
├── StoreError
│   ├── Fenced          a newer attempt owns the job: stop, and touch nothing
│   ├── LogGone         the log was deleted under the writer
│   ├── StoreRefused    Redis will never do what was asked: the job's keys are not what they were
│   └── UnknownJob      no record under this id
└── JobFailed           the job ended without a usable answer
"""

from __future__ import annotations

from typing import ClassVar

from settings.errors import LongstreamError


class StoreError(LongstreamError):
    """Redis answered, and the answer forbids going on."""


class Fenced(StoreError):
    """A newer attempt owns the job."""


class LogGone(StoreError):
    """The log does not exist any more."""


class StoreRefused(StoreError):
    """Redis refuses a command for good. It says nothing about the job."""


class UnknownJob(StoreError):
    """No job has this id, or everything of it is past retention."""

    #: What a reader is answered, in one word for programs.
    answer: ClassVar[str] = "unknown_job"


class JobFailed(LongstreamError):
    """The job ended without a usable answer."""

    def __init__(self, outcome: str, reason: str = "") -> None:
        # Both are arguments of the exception, since that is what a result backend keeps of it.
        super().__init__(outcome, reason)
        self.outcome = outcome
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome
