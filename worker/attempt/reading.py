"""What a task makes of an answer: while it comes, and when it is whole.

A reading is fed the text in any pieces, and says which names the text is enough for by now; those
become notes in the job's log. When the answer is whole, it makes the task's result of it, or raises
`Unusable` once, with what the model must be told; what reads the corrected answer knows what of the
first one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from settings.errors import LongstreamError
from worker.upstream.happenings import ToolCall


class Mark(NamedTuple):
    """`name` is complete with the first `upto` characters of the piece."""

    upto: int
    what: str
    name: str


class Reading(Protocol):
    """Pure: the same text gives the same marks and the same result."""

    def take(self, text: str) -> Sequence[Mark]:
        """The next piece. Never raises for what the text says."""

    def close(self) -> Sequence[Mark]:
        """There is no more; what that completes, `upto` 0."""

    def finish(self) -> Any:
        """The result; JSON. Raises Unusable, or another LongstreamError that fails the job."""


@runtime_checkable
class HearsCalls(Protocol):
    """A reading that also wants the calls of tools, which are no part of the text."""

    def call(self, fragment: ToolCall) -> None:
        """The next fragment of a call."""


class Unusable(LongstreamError):
    """The answer breaks what the task needs. `correction` asks the model for a better one, and
    `again` reads that."""

    def __init__(self, problem: str, correction: str, again: Reading) -> None:
        super().__init__(problem)
        self.correction = correction
        self.again = again


class Whole:
    """Reads nothing before the end."""

    def __init__(self, finish: Callable[[str], Any]) -> None:
        self._finish = finish
        self._text: list[str] = []

    def take(self, text: str) -> Sequence[Mark]:
        self._text.append(text)
        return ()

    def close(self) -> Sequence[Mark]:
        return ()

    def finish(self) -> Any:
        return self._finish("".join(self._text))
