"""Plain generation: a prompt in, the text of the answer out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.upstream.request import Message, Request, check_extra_body

from settings.errors import LongstreamError
from tasks.application import app
from worker.task import StreamingTask


@app.task(base=StreamingTask, name="tasks.generate")
def generate(
    prompt: str,
    *,
    system: str | None = None,
    model: str = "",
    effort: str | None = None,
    max_output_tokens: int | None = None,
    extra_body: Mapping[str, Any] | None = None,
) -> Request:
    """Answer a prompt. `generate.delay(...).get()` returns the text.

    `model` empty: the settings' default. `extra_body` is merged into the request's top level.
    """
    if not prompt.strip():
        raise LongstreamError("the prompt is empty: say what to answer")
    asked = Message("user", prompt)
    check_extra_body(extra_body or {})
    return Request(
        model=model,
        messages=(Message("system", system), asked) if system else (asked,),
        effort=effort,
        max_output_tokens=max_output_tokens,
        extra_body=extra_body or {},
    )
