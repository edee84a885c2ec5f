"""What follows a job, its callbacks and chains, gets its ids when the job is submitted.

A worker that dies between sending what follows and settling the lease leaves the result to its next
holder, who sends it once more. Under the same ids that is the same jobs; a plain Celery task, which
nothing keeps from running twice, at least has one id.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

#: What a signature that is none itself holds its parts in.
_PARTS = {"chain": ("tasks",), "group": ("tasks",), "chord": ("header", "body")}


def with_ids(embedded: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    """The part of a message that says what follows, as JSON, with an id in every signature."""
    return {name: _fixed(found, f"{job_id}/{name}") for name, found in embedded.items()}


def _fixed(found: Any, seed: str) -> Any:
    if isinstance(found, list):
        return [_fixed(each, f"{seed}/{n}") for n, each in enumerate(found)]
    if not isinstance(found, dict) or "task" not in found:
        return found
    options = dict(found.get("options") or {})
    parts = _PARTS.get(found.get("subtask_type") or "")
    if parts is None:
        options.setdefault("task_id", str(uuid.uuid5(uuid.NAMESPACE_OID, seed)))
        return found | {"options": options}
    kwargs = dict(found.get("kwargs") or {})
    for part in parts:
        kwargs[part] = _fixed(kwargs.get(part), f"{seed}/{part}")
    return found | {"kwargs": kwargs}
