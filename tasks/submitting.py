"""Makes submissions of calls: what `jobs.submit` and whoever submits many have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from settings.errors import LongstreamError
from settings.model import Settings
from tasks.kinds import KINDS
from worker.admission.estimates import estimate
from worker.job.routing import Choice, choose
from worker.job.submission import Submission, submission_of
from worker.job.terms import USUAL, Terms
from worker.messages.message import plain_message


def submitted(
    settings: Settings,
    task: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    job_id: str,
    terms: Terms | None = None,
    tenant: str = "default",
    priority: str = "normal",
    answered_here: bool = False,
    chosen: Choice | None = None,
) -> Submission:
    """The submission of a built-in task. Raises LongstreamError. `answered_here`: whoever submits
    reads the job, and Celery keeps no result of it. `chosen`: how its model was chosen before."""
    kind = KINDS[task]
    request = kind.build(*args, **kwargs)
    size = estimate(request)
    chosen = chosen or choose(settings, task, request, size)
    # The default is the submitter's, and a worker may have another.
    kwargs = {**kwargs, "model": chosen.model}
    return submission_of(
        settings,
        plain_message(task, job_id, list(args), kwargs, ignore_result=answered_here),
        chosen,
        size,
        label=kind.label(*args, **kwargs),
        tenant=tenant,
        priority=priority,
        terms=terms or USUAL,
    )


def routed(settings: Settings, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Choice:
    """Which model a call of a built-in task would get. Raises LongstreamError."""
    return routed_prompt(settings, task, args, kwargs)[0]


def routed_prompt(
    settings: Settings, task: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> tuple[Choice, int]:
    """The model a call would get, and the tokens its prompt is estimated at."""
    if task not in KINDS:
        raise LongstreamError(f"no task {task}: there are {', '.join(sorted(KINDS))}")
    request = KINDS[task].build(*args, **(kwargs or {}))
    size = estimate(request)
    return choose(settings, task, request, size), size.prompt


def submitted_by_celery(
    task: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    job_id: str,
    terms: Terms | None = None,
    tenant: str = "default",
    priority: str = "normal",
) -> str:
    """Submit a task that only Celery knows, one of the user's own; the job's id.

    Raises LongstreamError.
    """
    from tasks.application import app

    if task not in app.tasks:
        raise LongstreamError(
            f"no task {task}: there are {', '.join(sorted(KINDS))}; a task of your own must be "
            "imported before it is submitted, and LONGSTREAM_TASK_MODULES names it to the workers"
        )
    options = {"tenant": tenant, "priority": priority, **({"terms": terms} if terms else {})}
    return str(app.tasks[task].apply_async(args, kwargs, task_id=job_id, **options).id)
