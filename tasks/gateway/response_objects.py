"""The objects of OpenAI's Responses, made of a job's record."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool

from tasks.batches.answers import response_usage
from tasks.stored import store
from worker.job.records import Record, State
from worker.log.stored import clean_text, read_stored
from worker.outcomes import Outcome
from worker.store.keys import job_keys

PREFIX = "resp_"
#: Outcome to status, and to what is told beside it.
_STATUS = {
    Outcome.COMPLETED: ("completed", ""),
    Outcome.INCOMPLETE: ("incomplete", "max_output_tokens"),
    Outcome.FILTERED: ("incomplete", "content_filter"),
    Outcome.CANCELLED: ("cancelled", ""),
}


async def response_of(record: Record) -> dict[str, Any]:
    """The response object of a job as it stands."""
    if record.state is not State.ENDED:
        status = "queued" if record.state is State.WAITING else "in_progress"
        return snapshot(record, status, "", None, None)
    status, reason = _STATUS.get(Outcome(record.outcome), ("failed", ""))
    error = {"code": record.outcome, "message": record.reason} if status == "failed" else None
    return snapshot(record, status, reason, await run_in_threadpool(_text_of, record), error)


def _text_of(record: Record) -> str:
    """The whole text; of a log that is past retention what the record still has."""
    if isinstance(record.result, str):
        return record.result
    with store() as client:
        return clean_text(read_stored(client.execute_command, job_keys(record.id).log))


def snapshot(
    record: Record, status: str, reason: str, text: str | None, error: dict[str, str] | None
) -> dict[str, Any]:
    output = [message(f"msg_{record.id}", "completed", [part(text)])] if text else []
    return {
        "id": PREFIX + record.id,
        "object": "response",
        "created_at": record.created_ms // 1000,
        "status": status,
        "background": True,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": record.model,
        "output": output,
        "usage": None if record.usage is None else response_usage(record.usage),
    }


def message(item: str, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": item,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}
