"""Refactoring files: their contents and an instruction in, the changed files out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from worker.upstream.request import Message, Request

from settings.errors import LongstreamError
from tasks.application import app
from tasks.edits.answer import parse_answer
from tasks.edits.blocks import boundary_for
from tasks.edits.prompt import messages_for
from tasks.edits.source import SourceFile, source_file
from worker.task import StreamingTask

#: A file as it travels in a job's arguments: a SourceFile, or just its path and text.
FileArgument = Mapping[str, Any]


class Refactor(StreamingTask):
    """`refactor.delay(files, instruction).get()` returns `{"files": {path: text}, "notes": str}`.

    Only files that change are in the result. The answer is checked for its form here; whether it
    may be written is decided where the files are, by `tasks.edits.checks`.
    """

    name: ClassVar[str] = "tasks.refactor"

    def run(
        self,
        files: Sequence[FileArgument],
        instruction: str,
        *,
        model: str = "",
        effort: str | None = None,
        max_output_tokens: int | None = None,
    ) -> Request:
        """Build the request. Raises LongstreamError for an empty instruction or no files."""
        messages = messages_for(_sources(files), instruction)
        return Request(
            model=model,
            messages=tuple(Message(message.role, message.content) for message in messages),
            effort=effort,
            max_output_tokens=max_output_tokens,
        )

    def finish(
        self, text: str, files: Sequence[FileArgument], instruction: str, **_: Any
    ) -> dict[str, Any]:
        """The changed files. Raises AnswerError when the answer breaks the form."""
        sources = _sources(files)
        answer = parse_answer(text, sources, boundary_for(sources, instruction))
        return {"files": answer.files, "notes": answer.notes}

    def label(self, files: Sequence[FileArgument], *_: Any, **__: Any) -> str:
        first = str(files[0]["path"])
        return f"refactor {first}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def _sources(files: Sequence[FileArgument]) -> list[SourceFile]:
    return [_source(file) for file in files]


def _source(file: FileArgument) -> SourceFile:
    if "sha256" not in file and {"path", "text"} <= file.keys():
        return source_file(str(file["path"]), str(file["text"]).encode())
    try:
        return msgspec.convert(dict(file), SourceFile)
    except msgspec.ValidationError as error:
        raise LongstreamError(
            f"not a file: {error}; give path and text, or what tasks.edits.read_sources returns"
        ) from error


refactor = app.register_task(Refactor())
