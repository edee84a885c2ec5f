"""Plain generation: a prompt in, the text of the answer out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.application import app
from tasks.kinds import GENERATE, generation_request
from worker.task import StreamingTask
from worker.upstream.request import Request


@app.task(base=StreamingTask, name=GENERATE.task)
def generate(
    prompt: str,
    *,
    system: str | None = None,
    model: str = "",
    effort: str | None = None,
    max_output_tokens: int | None = None,
    extra_body: Mapping[str, Any] | None = None,
    inline_thinking: bool = False,
) -> Request:
    """Answer a prompt. `generate.delay(...).get()` returns the text.

    `model` empty: the settings' default. `extra_body` is merged into the request's top level.
    `inline_thinking`: the model writes its reasoning into the text, in <think> tags, which are then
    kept out of the answer. Raises LongstreamError for an empty prompt.
    """
    return generation_request(
        prompt,
        system=system,
        model=model,
        effort=effort,
        max_output_tokens=max_output_tokens,
        extra_body=extra_body,
        inline_thinking=inline_thinking,
    )
