"""Reads the answer to a refactor as it comes: which files are ready, and the result at its end.

A file is ready with the last character of its block, whatever follows. An answer that breaks the
form is asked for once more: the model is told the line and the fault, and sends what is missing.
What was ready before stays, unless the second answer has it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.edits.answer import AnswerError, AnswerParser, FileFinished
from tasks.edits.blocks import end_marker, file_marker, none_marker
from tasks.edits.paths import shown
from tasks.edits.source import SourceFile
from worker.attempt.reading import Mark, Unusable

#: The note that says a file is complete.
FILE_READY = "file_ready"
#: Ready files named in a correction; more are only counted.
_NAMED = 20


class AnswerReading:
    """`ready` has the new text of every file that is complete so far."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        boundary: str,
        first: Mapping[str, str] | None = None,
        notes: str = "",
    ) -> None:
        """`first`: what an answer that broke the form had ready; this reads its correction."""
        self._files = files
        self._boundary = boundary
        self._parser = AnswerParser(files, boundary)
        self._first = first
        self._notes = notes
        self._length = 0
        self._error: AnswerError | None = None

    @property
    def ready(self) -> dict[str, str]:
        return {**(self._first or {}), **self._parser.files}

    def take(self, text: str) -> Sequence[Mark]:
        if self._error is not None:
            return ()
        began, self._length = self._length, self._length + len(text)
        try:
            return self._marks(self._parser.feed(text), began)
        except AnswerError as error:
            self._error = error
            return self._marks(error.before, began)

    def close(self) -> Sequence[Mark]:
        if self._error is not None:
            return ()
        try:
            return self._marks(self._parser.take_rest(), self._length)
        except AnswerError as error:
            self._error = error
            return ()

    def finish(self) -> dict[str, Any]:
        """`{"files": {path: text}, "notes": str}`. Raises Unusable, or AnswerError when the
        correction breaks the form as well."""
        try:
            if self._error is not None:
                raise self._error
            answer = self._parser.close()
        except AnswerError as error:
            if self._first is not None:
                raise
            raise self._unusable(error) from error
        notes = "\n".join(filter(None, (self._notes, answer.notes)))
        return {"files": self.ready, "notes": notes}

    def anew(self) -> AnswerReading:
        """The same from the first character."""
        return AnswerReading(self._files, self._boundary, self._first, self._notes)

    def corrected(self) -> AnswerReading:
        """What reads the correction of this answer."""
        return AnswerReading(self._files, self._boundary, self.ready)

    def _unusable(self, error: AnswerError) -> Unusable:
        return Unusable(str(error), self._correction(error), self.corrected())

    def _marks(self, finished: Sequence[FileFinished], began: int) -> list[Mark]:
        return [Mark(each.offset - began, FILE_READY, each.path) for each in finished]

    def _correction(self, error: AnswerError) -> str:
        first, last = file_marker(self._boundary, "path/of/file"), end_marker(self._boundary)
        return f"""\
Your answer breaks the form, so a program cannot read it: {error}.
{self._kept()}
Send every other file you change once more: its whole new content in one block, between the lines

{first}
{last}

each alone on its line, in the first column, with the path exactly as it was sent. If nothing is \
missing, answer with this line alone:
{none_marker(self._boundary)}
"""

    def _kept(self) -> str:
        names = [shown(path) for path in self.ready]
        if not names:
            return "No file of it could be used."
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"These files of it are used as they are: {', '.join(names[:_NAMED])}{more}."
