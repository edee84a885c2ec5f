"""One request of a batch: a body as OpenAI's APIs take it in, text and tool calls out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.application import app
from tasks.batches.reading import AnswerOfBody
from tasks.kinds import BATCH, batch_request
from worker.task import StreamingTask
from worker.upstream.request import Request


class BatchTask(StreamingTask):
    """Bulk work unless told otherwise."""

    abstract = True
    priority = "bulk"

    def reading(self, *_: Any, **__: Any) -> AnswerOfBody:
        return AnswerOfBody()


@app.task(base=BatchTask, name=BATCH.task)
def batch(url: str, body: Mapping[str, Any], *, model: str = "") -> Request:
    """`batch.delay("/v1/chat/completions", body).get()` returns `{"text": ..., "calls": [...]}`,
    the calls only when there are any.

    Raises LongstreamError for a body that can not be sent.
    """
    return batch_request(url, body, model=model)
