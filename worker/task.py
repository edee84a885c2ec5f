"""The base class of streaming tasks.

The function of such a task does not run the request, it builds it: `run(*args, **kwargs)` returns
a `Request`, and `finish` makes the task's result of the text. Between the two, the job waits in
the line and the engine streams it. Everything Celery offers keeps working, `delay`, `chain`,
`group`, `chord` and `AsyncResult`, because what is stored and later published is the ordinary
message under the same task id, which is also the job's id.

A lease is settled when Celery has stored the result and sent what follows it. Where that fails,
the lease is left to expire, and its next holder repeats the result.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from celery import Task, signals
from celery.exceptions import Ignore
from celery.result import AsyncResult
from kombu.utils.json import loads
from kombu.utils.uuid import uuid

from settings.errors import LongstreamError
from settings.model import Settings
from worker.admission.estimates import estimate
from worker.admission.line import Lease
from worker.attempt.reading import Reading, Whole
from worker.attempt.work import Sealed, Work
from worker.engine import Engine
from worker.errors import JobFailed
from worker.job.routing import choose
from worker.job.submission import submission_of
from worker.job.submitting import StoreFull, submit
from worker.job.terms import USUAL
from worker.ledger.allowed import refuse_spent
from worker.messages.captured import Captured
from worker.messages.message import Message
from worker.messages.publish import EXPIRES_HEADER, KEY_HEADER, LEASE_HEADER, POOL_HEADER
from worker.messages.results import revoke
from worker.outcomes import Outcome
from worker.seeing.tracing import HEADER
from worker.steps.lifecycle import engine
from worker.store.connections import StoreUnreachable, now_ms, opened, require
from worker.upstream.request import Request as ModelRequest

#: Pause before a worker tries again to reach the store, in seconds.
_PAUSE_S = 1.0


class StreamingTask(Task):
    """Subclass it, or give it to `app.task(base=StreamingTask)`."""

    abstract = True
    #: A job that ended without an answer is no surprise: no traceback in the log.
    throws = (LongstreamError,)
    #: Return values are answers: nothing of them may reach a log line or an event.
    resultrepr_maxsize = 0
    #: How the worker speaks of a received message.
    Request = "worker.messages.received:QuietRequest"

    #: Whose jobs these are when `apply_async` is not told.
    tenant = "default"
    #: How urgent they are: "urgent", "normal" or "bulk"; a number is Celery's own and not ours.
    priority: str | int | None = None

    def run(self, *args: Any, **kwargs: Any) -> ModelRequest:
        """Build the request. Must be pure: it runs at submit, and again for each attempt."""
        raise NotImplementedError

    def finish(self, text: str, *args: Any, **kwargs: Any) -> Any:
        """The task's result, of the whole text; JSON. A LongstreamError fails the job."""
        return text

    def reading(self, *args: Any, **kwargs: Any) -> Reading:
        """Reads the answer of one attempt. Override it, instead of `finish`, to make notes in the
        log as the text comes, or to have the model correct its answer."""
        return Whole(lambda text: self.finish(text, *args, **kwargs))

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
        """Submit the job. Raises LongstreamError when the request can not be built or stored.

        Beside Celery's own options it takes `terms=Terms(...)`, `tenant=` and a named `priority=`.
        In a worker it waits for a store that is away or full: what comes after a job is not lost.
        """
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        task_id = task_id or uuid()
        options |= {"link": link, "link_error": link_error, "shadow": shadow}
        while True:
            try:
                return self._submit(args, kwargs, task_id, dict(options))
            except (StoreUnreachable, StoreFull):
                if self.app.current_worker_task is None:
                    raise
                time.sleep(_PAUSE_S)

    def _submit(self, args: Any, kwargs: Any, task_id: str, options: dict[str, Any]) -> AsyncResult:
        settings: Settings = self.app.longstream
        request = self._request(args, kwargs)
        size = estimate(request)
        chosen = choose(settings, str(self.name), request, size)
        terms = options.pop("terms", None) or USUAL
        tenant = str(options.pop("tenant", None) or self.tenant)
        priority = options.pop("priority", None) or self.priority
        wait_s = _wait_s(options.pop("countdown", None), options.pop("eta", None))
        # Celery's own priority is a number, and goes on to the message. The stand-in takes that at
        # once: there is nothing to publish again.
        options |= {"priority": None if isinstance(priority, str) else priority, "retry": False}
        captured = Captured()
        with opened(settings.store_url) as client:
            # Celery itself would try for long to reach a server that is not there.
            require(client, settings.store_url)
            refuse_spent(client, settings, tenant, now_ms(client))
            result = super().apply_async(args, kwargs, task_id, captured, **options)
            assert captured.message is not None
            job = submission_of(
                settings,
                captured.message,
                chosen,
                size,
                label=self.label(*args, **kwargs),
                tenant=tenant,
                priority=priority if isinstance(priority, str) else "normal",
                terms=terms,
                wait_ms=int(wait_s * 1000),
            )
            submit(client, job)
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What Celery calls in the worker: run the lease the message belongs to."""
        if self.request.called_directly or self.request.is_eager:
            raise LongstreamError(
                f"{self.name} runs in a worker: submit it with .delay(...) and read the result "
                "with .get(), or the text with tasks.jobs.tail(id)"
            )
        lease = self._lease()
        _thread.held = None
        if lease is None:
            # Sent by name, past `apply_async`: into the line with it, under the same id.
            entering = self.signature_from_request(self.request, args, kwargs)
            entering.apply_async(eta=self.request.eta)
            raise Ignore
        here = engine(self.app, str(self.request.hostname))
        message = here.message(lease.job_id) or _NO_RECORD
        verdict = here.run(self._work(lease, message))
        if not isinstance(verdict, Sealed):
            raise Ignore
        _thread.held = _Held(here, lease)
        # What follows the job, and its arguments, did not travel with the message.
        self.request.update(loads(json.dumps(message.body[2])))
        return self._concluded(verdict)

    def _work(self, lease: Lease, message: Message) -> Work:
        args, kwargs, _ = message.body
        expires = self.request.get(EXPIRES_HEADER)
        return Work(
            lease=lease,
            build=lambda: self._request(args, kwargs),
            read=lambda: self.reading(*args, **kwargs),
            expires=None if expires is None else _moment(expires),
            trace=self.request.get(HEADER),
        )

    def _concluded(self, verdict: Sealed) -> Any:
        """What Celery is to hear of the job's end."""
        if verdict.outcome is Outcome.COMPLETED:
            return verdict.result
        if verdict.outcome in (Outcome.CANCELLED, Outcome.EXPIRED):
            revoke(self.backend, self.request, verdict.outcome)
            _settle(self.request.id)
            raise Ignore
        raise JobFailed(verdict.outcome, verdict.reason)

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        """The result is stored and whatever follows the task is sent: now the lease may go."""
        _settle(task_id)

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """As `after_return`, which Celery leaves out when it could not send what follows."""
        _settle(task_id)

    def _request(self, args: Any, kwargs: Any) -> ModelRequest:
        request: ModelRequest = self.run(*args, **kwargs)
        if not request.model:
            request = msgspec.structs.replace(request, model=self.app.longstream.model)
        return request

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


#: Stands in for a message past retention; the claim will say that the job is unknown.
_NO_RECORD = Message(body=[[], {}, {}], headers={}, properties={})


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease whose job is sealed, while Celery deals with the result in the same thread."""

    engine: Engine
    lease: Lease


_thread = threading.local()


def _settle(task_id: str) -> None:
    held: _Held | None = getattr(_thread, "held", None)
    if held is not None and held.lease.job_id == task_id:
        _thread.held = None
        held.engine.settle(held.lease)


def _abandon(**_: Any) -> None:
    """Celery is done with the task, and may not have come to settle it."""
    held: _Held | None = getattr(_thread, "held", None)
    if held is not None:
        held.engine.abandon(held.lease)


signals.task_postrun.connect(_abandon)


def _wait_s(countdown: float | None, eta: str | datetime | None) -> float:
    """Seconds a job waits in the line instead of as an ETA in a worker's memory."""
    if countdown is not None:
        return max(0.0, float(countdown))
    if eta is not None:
        return max(0.0, (_moment(eta) - datetime.now(UTC)).total_seconds())
    return 0.0


def _moment(when: str | datetime) -> datetime:
    """A time as Celery takes it: one without a zone is UTC."""
    at = datetime.fromisoformat(when) if isinstance(when, str) else when
    return at if at.tzinfo else at.replace(tzinfo=UTC)
