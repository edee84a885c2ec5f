"""The ordinary Celery message of a task, as a job's record keeps it until the job has a lease."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from settings.errors import LongstreamError


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The ordinary Celery message of a task, as its producer would have published it."""

    body: Any
    headers: dict[str, Any]
    properties: dict[str, Any]

    def dump(self) -> str:
        """Raises LongstreamError for arguments that are not JSON."""
        try:
            return json.dumps([self.body, self.headers, self.properties])
        except (TypeError, ValueError) as error:
            raise LongstreamError(
                f"a job's arguments must be JSON values: {error}; convert it before submitting"
            ) from error

    @classmethod
    def load(cls, stored: str | bytes) -> Message:
        body, headers, properties = json.loads(stored)
        return cls(body=body, headers=headers, properties=properties)


def plain_message(
    task: str, job_id: str, args: list[Any], kwargs: dict[str, Any], *, ignore_result: bool = False
) -> Message:
    """The message Celery would make of `task.delay(*args, **kwargs)`, in protocol version 2."""
    headers: dict[str, Any] = {
        "lang": "py",
        "task": task,
        "id": job_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": job_id,
        "parent_id": None,
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "ignore_result": ignore_result,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    return Message(
        body=[args, kwargs, embedded], headers=headers, properties={"correlation_id": job_id}
    )
