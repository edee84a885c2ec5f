"""The kinds of jobs there are: how each builds its request, and what it is called in listings.

Pure, and without Celery: a client that submits a job should not pay for loading a task queue.
The Celery tasks of the same names are built on these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from settings.errors import LongstreamError
from settings.routing import AUTO
from tasks.batches.bodies import URLS, request_of
from tasks.edits.blocks import boundary_for
from tasks.edits.prompt import messages_for
from tasks.edits.reading import AnswerReading
from tasks.edits.source import SourceFile, source_file
from worker.upstream.request import Message, Request, check_extra_body

#: A file as it travels in a job's arguments: a SourceFile's fields, or just path and text.
FileArgument = Mapping[str, Any]


class Kind(msgspec.Struct, frozen=True):
    """`task` is the Celery task's name; `label` never holds a prompt."""

    task: str
    build: Callable[..., Request]
    label: Callable[..., str]


def generation_request(
    prompt: str,
    *,
    system: str | None = None,
    model: str = "",
    effort: str | None = None,
    max_output_tokens: int | None = None,
    extra_body: Mapping[str, Any] | None = None,
    inline_thinking: bool = False,
) -> Request:
    """Raises LongstreamError for an empty prompt or a reserved field in `extra_body`."""
    if not _text("prompt", prompt).strip():
        raise LongstreamError("the prompt is empty: say what to answer")
    check_extra_body(extra_body or {})
    asked = Message("user", prompt)
    return Request(
        model=model,
        messages=(Message("system", system), asked) if system else (asked,),
        effort=effort,
        max_output_tokens=max_output_tokens,
        extra_body=extra_body or {},
        inline_thinking=inline_thinking,
    )


def batch_request(url: str, body: Mapping[str, Any], *, model: str = "") -> Request:
    """`model` is what `body` names already, and there for listings. Raises LongstreamError."""
    if url not in URLS:
        raise LongstreamError(f"unknown url {url!r}: it is one of {', '.join(URLS)}")
    # `auto` in the body is a question, and `model` its answer.
    asked = body if not model or body.get("model") != AUTO else {**body, "model": model}
    return request_of(url, asked)


def refactor_request(
    files: Sequence[FileArgument],
    instruction: str,
    *,
    model: str = "",
    effort: str | None = None,
    max_output_tokens: int | None = None,
) -> Request:
    """Raises LongstreamError for an empty instruction or no files."""
    return Request(
        model=model,
        messages=messages_for(sources_of(files), _text("instruction", instruction)),
        effort=effort,
        max_output_tokens=max_output_tokens,
    )


def refactor_reading(files: Sequence[FileArgument], instruction: str) -> AnswerReading:
    """What reads the answer: the changed files, each as soon as it is complete."""
    sources = sources_of(files)
    return AnswerReading(sources, boundary_for(sources, instruction))


def sources_of(files: Sequence[FileArgument]) -> list[SourceFile]:
    """The files of a job's arguments. Raises LongstreamError when one is not a file."""
    if not isinstance(files, (list, tuple)) or not all(isinstance(f, Mapping) for f in files):
        raise LongstreamError("the files must be a list of objects, each with path and text")
    return [_source(file) for file in files]


def _text(name: str, value: object) -> str:
    """What a chain hands on may be anything."""
    if not isinstance(value, str):
        raise LongstreamError(f"the {name} must be text, and it is a {type(value).__name__}")
    return value


def _source(file: FileArgument) -> SourceFile:
    if "sha256" not in file and {"path", "text"} <= file.keys():
        return source_file(str(file["path"]), str(file["text"]).encode())
    try:
        return msgspec.convert(dict(file), SourceFile)
    except msgspec.ValidationError as error:
        raise LongstreamError(
            f"not a file: {error}; give path and text, or what tasks.edits.source reads"
        ) from error


def _refactor_label(files: Sequence[FileArgument], *_: Any, **__: Any) -> str:
    first = str(files[0]["path"])
    return f"refactor {first}" + (f" and {len(files) - 1} more" if len(files) > 1 else "")


GENERATE = Kind("tasks.generate", generation_request, lambda *_, **__: "generate")
REFACTOR = Kind("tasks.refactor", refactor_request, _refactor_label)
BATCH = Kind("tasks.batch", batch_request, lambda *_, **__: "batch")
KINDS = {kind.task: kind for kind in (GENERATE, REFACTOR, BATCH)}
