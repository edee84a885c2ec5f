"""The base class of streaming tasks.

The function of such a task does not run the request, it builds it: `run(*args, **kwargs)` returns
a `Request`, and `finish` makes the task's result of the text. Between the two, the job waits in
the line and the engine streams it. Everything Celery offers keeps working, `delay`, `chain`,
`group`, `chord` and `AsyncResult`, because what is stored and later published is the ordinary
message under the same task id, which is also the job's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from celery import Task
from celery.exceptions import Ignore
from celery.result import AsyncResult

from settings.errors import LongstreamError
from worker.admission.estimates import estimate, pool_taking
from worker.admission.line import Lease
from worker.errors import JobFailed
from worker.keys import job_keys
from worker.outcomes import Outcome
from worker.runner import Sealed, Work
from worker.steps.lifecycle import engine
from worker.steps.publish import KEY_HEADER, LEASE_HEADER, POOL_HEADER
from worker.store import connect
from worker.submission import Message, Submission, submit
from worker.upstream.request import Request


class StreamingTask(Task):
    """Subclass it, or give it to `app.task(base=StreamingTask)`."""

    abstract = True
    #: A job that ended without an answer is no surprise: no traceback in the log.
    throws = (JobFailed,)
    #: Return values are answers: nothing of them may reach a log line or an event.
    resultrepr_maxsize = 0

    #: Whose jobs these are when `apply_async` is not told.
    tenant = "default"
    #: How urgent they are: "urgent", "normal" or "bulk"; a number is Celery's own and not ours.
    priority: str | int | None = None

    def run(self, *args: Any, **kwargs: Any) -> Request:
        """Build the request. Must be pure: it runs at submit, and again for each attempt."""
        raise NotImplementedError

    def finish(self, text: str, *args: Any, **kwargs: Any) -> Any:
        """The task's result, of the whole text; JSON. A LongstreamError fails the job."""
        return text

    def label(self, *args: Any, **kwargs: Any) -> str:
        """One line for listings. Never a prompt."""
        return str(self.name).rsplit(".", 1)[-1]

    def apply_async(
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        shadow: str | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Submit the job. Raises LongstreamError when the request can not be built or stored."""
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        request = self._request(args, kwargs)
        size, wait_s = estimate(request), _wait_s(options)
        tenant = options.pop("tenant", None) or self.tenant
        priority = options.pop("priority", None) or self.priority
        # Celery's own priority is a number, and goes on to the message.
        options["priority"] = None if isinstance(priority, str) else priority
        captured = _Captured()
        result = super().apply_async(
            args, kwargs, task_id, captured, link, link_error, shadow, **options
        )
        assert captured.message is not None
        job = Submission(
            job_id=result.id,
            task=str(self.name),
            model=request.model,
            pool=pool_taking(self.app.longstream, request.model, size).name,
            label=self.label(*args, **kwargs),
            message=captured.message,
            estimate=size,
            tenant=str(tenant),
            priority=priority if isinstance(priority, str) else "normal",
            wait_ms=int(wait_s * 1000),
        )
        with connect(self.app.longstream.redis_url) as client:
            submit(client, job)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What Celery calls in the worker: run the lease the message belongs to."""
        if self.request.called_directly:
            raise LongstreamError(
                f"{self.name} runs in a worker: submit it with .delay(...) and read the result "
                "with .get(), or the text with tasks.jobs.tail(id)"
            )
        lease = self._lease()
        if lease is None:
            # Sent by name, past `apply_async`: into the line with it, under the same id.
            self.signature_from_request(self.request, args, kwargs).apply_async()
            raise Ignore
        stored = self._stored_arguments(lease.job_id)
        work = Work(
            lease=lease,
            build=lambda: self._request(*stored()),
            finish=lambda text: self._finish(text, *stored()),
        )
        verdict = self._engine().run(work)
        if not isinstance(verdict, Sealed):
            raise Ignore
        if verdict.outcome is Outcome.COMPLETED:
            return verdict.result
        if verdict.outcome is Outcome.CANCELLED:
            self.backend.mark_as_revoked(
                self.request.id, "cancelled", request=self.request, store_result=True
            )
            self._engine().settle(lease)
            raise Ignore
        raise JobFailed(f"{verdict.outcome}: {verdict.reason}")

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        """The result is stored and whatever follows the task is sent: now the lease may go."""
        if (lease := self._lease()) is not None:
            self._engine().settle(lease)

    def _request(self, args: Any, kwargs: Any) -> Request:
        request: Request = self.run(*args, **kwargs)
        if not request.model:
            request = msgspec.structs.replace(request, model=self.app.longstream.model)
        return request

    def _finish(self, text: str, args: Any, kwargs: Any) -> Any:
        return self.finish(text, *args, **kwargs)

    def _engine(self) -> Any:
        return engine(self.app, str(self.request.hostname))

    def _lease(self) -> Lease | None:
        number = self.request.get(LEASE_HEADER)
        if number is None:
            return None
        return Lease(
            job_id=str(self.request.id),
            pool=str(self.request.get(POOL_HEADER)),
            number=int(number),
            key=str(self.request.get(KEY_HEADER)),
        )

    def _stored_arguments(self, job_id: str) -> Any:
        """A function that reads the job's arguments from its record."""

        def read() -> tuple[list[Any], dict[str, Any]]:
            with connect(self.app.longstream.redis_url) as client:
                stored = client.hget(job_keys(job_id).record, "message")
            if stored is None:
                raise JobFailed(f"job {job_id} has no record any more")
            assert isinstance(stored, bytes)
            args, kwargs, _ = Message.load(stored).body
            return args, kwargs

        return read


def _wait_s(options: dict[str, Any]) -> float:
    """Seconds a job waits in the line instead of as an ETA in a worker's memory."""
    countdown, eta = options.pop("countdown", None), options.pop("eta", None)
    if countdown is not None:
        return max(0.0, float(countdown))
    if isinstance(eta, datetime):
        return max(0.0, (eta - datetime.now(eta.tzinfo)).total_seconds())
    return 0.0


class _Captured:
    """A producer that keeps the message instead of publishing it."""

    serializer = "json"

    def __init__(self) -> None:
        self.message: Message | None = None
        self.connection = self

    def __enter__(self) -> _Captured:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield

    def publish(self, body: Any, **options: Any) -> None:
        headers = options.pop("headers")
        kept = ("correlation_id", "reply_to", "priority", "expiration")
        properties = {name: options[name] for name in kept if options.get(name) is not None}
        self.message = Message(body=body, headers=headers, properties=properties)
