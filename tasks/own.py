"""Streaming tasks of your own: a function that says what to ask, and one that reads the answer.

    from tasks.own import streaming

    @streaming(finish=lambda text, *_, **__: text.splitlines())
    def outline(topic: str) -> str:
        return f"Give an outline of {topic}, one heading a line."

What it makes is an ordinary Celery task: `delay`, `chain`, `group`, `chord` and `AsyncResult` work,
and so do `jobs.submit`, `jobs.tail` and all commands. Workers must know the module: name it in
LONGSTREAM_TASK_MODULES.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from settings.errors import LongstreamError
from tasks.application import app
from worker.task import StreamingTask
from worker.upstream.request import Message, Request

__all__ = ["Message", "Request", "StreamingTask", "streaming"]

#: Says what to ask: a prompt, or a whole request.
Ask = Callable[..., str | Request]


@overload
def streaming(ask: Ask, /) -> StreamingTask: ...


@overload
def streaming(
    *,
    name: str | None = ...,
    finish: Callable[..., Any] | None = ...,
    model: str = ...,
    effort: str | None = ...,
    tenant: str = ...,
    priority: str = ...,
) -> Callable[[Ask], StreamingTask]: ...


def streaming(
    ask: Ask | None = None,
    /,
    *,
    name: str | None = None,
    finish: Callable[..., Any] | None = None,
    model: str = "",
    effort: str | None = None,
    tenant: str = "default",
    priority: str = "normal",
) -> Any:
    """Make a streaming task of `ask`, whose name is that of its module and function.

    `ask` runs when a job is submitted, and again for each attempt, so it must say the same each
    time. `finish(text, *args, **kwargs)` makes the task's result, which must be JSON, of the text
    and the task's arguments; a LongstreamError from it fails the job. `model` and `effort` are
    those of a prompt that is only text; empty: the settings' default.
    """

    def made(ask: Ask) -> StreamingTask:
        @functools.wraps(ask)
        def build(*args: Any, **kwargs: Any) -> Request:
            return _request(ask(*args, **kwargs), model, effort)

        own: dict[str, Any] = {"abstract": True, "tenant": tenant, "priority": priority}
        if finish is not None:
            own["finish"] = lambda _self, text, *args, **kwargs: finish(text, *args, **kwargs)
        base = type(f"{ask.__name__}Task", (StreamingTask,), own)
        whole = name or f"{ask.__module__}.{ask.__name__}"
        task: StreamingTask = app.task(base=base, name=whole)(build)
        return task

    return made if ask is None else made(ask)


def _request(asked: str | Request, model: str, effort: str | None) -> Request:
    if isinstance(asked, Request):
        return asked
    if not isinstance(asked, str) or not asked.strip():
        raise LongstreamError("a streaming task must return a prompt or a Request")
    return Request(model=model, messages=(Message("user", asked),), effort=effort)
