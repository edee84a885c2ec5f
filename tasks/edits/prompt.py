"""What is asked of a model for a change of files. The same files and words give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from settings.errors import LongstreamError
from tasks.edits.blocks import block, boundary_for, end_marker, file_marker, none_marker
from tasks.edits.source import SourceFile
from worker.upstream.request import Message


class PromptError(LongstreamError):
    """The request says too little to be sent."""


def messages_for(files: Sequence[SourceFile], instruction: str) -> tuple[Message, ...]:
    """The messages that send `files` and ask for `instruction`."""
    if not instruction.strip():
        raise PromptError('the instruction is empty: say what to change with -m "..."')
    if not files:
        raise PromptError("no files to change: name at least one")
    boundary = boundary_for(files, instruction)
    blocks = "".join(block(boundary, file.path, file.text) for file in files)
    return (
        Message("system", _answer_format(boundary)),
        Message("user", f"{instruction.strip()}\n\n{blocks}"),
    )


def _answer_format(boundary: str) -> str:
    return f"""\
You change source files as the user asks. The user's message holds the instruction, then the \
files, each in one block:

{file_marker(boundary, "path/of/file")}
the whole content of the file, line by line
{end_marker(boundary)}

Answer in the same form. Rules:
- For every file you change, write one block with its whole new content. A program reads the \
blocks and replaces the files, so leave nothing out and abbreviate nothing.
- Copy the path exactly as it was sent, in double quotes. Do not add, rename or delete files.
- Leave out files you do not change. If no file needs a change, answer with this line alone:
{none_marker(boundary)}
- Both marker lines start in the first column, are alone on their line, and use {boundary} as \
given. No line of a file may start with them.
- Between the markers put the content alone: no code fences, no line numbers, no comments about \
the change that do not belong in the file.
- Explanations may stand before, between and after blocks. Keep them short.
"""
