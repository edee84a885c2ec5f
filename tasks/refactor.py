"""Refactoring files: their contents and an instruction in, the changed files out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks.application import app
from tasks.edits.reading import AnswerReading
from tasks.kinds import REFACTOR, FileArgument, refactor_reading, refactor_request
from worker.task import StreamingTask
from worker.upstream.request import Request


class RefactorTask(StreamingTask):
    """Only files that change are in the result. The answer is checked for its form here; whether
    it may be written is decided where the files are, by `tasks.edits.checks`."""

    abstract = True

    def reading(self, files: Sequence[FileArgument], instruction: str, **_: Any) -> AnswerReading:
        """Notes each file in the log once it is complete; an answer that breaks the form is
        corrected by the model, once."""
        return refactor_reading(files, instruction)

    def label(self, *args: Any, **kwargs: Any) -> str:
        return REFACTOR.label(*args, **kwargs)


@app.task(base=RefactorTask, name=REFACTOR.task)
def refactor(
    files: Sequence[FileArgument],
    instruction: str,
    *,
    model: str = "",
    effort: str | None = None,
    max_output_tokens: int | None = None,
) -> Request:
    """`refactor.delay(files, instruction).get()` returns `{"files": {path: text}, "notes": str}`.

    Raises LongstreamError for an empty instruction or no files.
    """
    return refactor_request(
        files, instruction, model=model, effort=effort, max_output_tokens=max_output_tokens
    )
