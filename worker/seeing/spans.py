"""Spans, as OpenTelemetry has them. The one file that imports it, which is an optional extra.

Every attempt of a job is a span of its trace. One whose worker was killed could not end its span,
so the next attempt tells it, under the id that the dead one would have used: should that one only
have been frozen, both speak of the same span.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from worker.admission.line import Lease

if TYPE_CHECKING:
    from worker.seeing.tracing import Attributes

#: A collector that does not answer holds nothing up for longer, in seconds.
_EXPORT_S = 5.0
#: Between two exports, in milliseconds.
_EVERY_MS = 1000

_NS_PER_MS = 1_000_000

_wire = TraceContextTextMapPropagator()


class Traces:
    """All methods may be called from any thread."""

    def __init__(self, endpoint: str, sample: float, exporter: SpanExporter | None = None) -> None:
        """`sample`: the share of jobs that are traced."""
        self._share = TraceIdRatioBased(sample)
        self._ids = _Ids()
        self._provider = TracerProvider(
            sampler=ParentBased(self._share),
            id_generator=self._ids,
            resource=Resource.create({SERVICE_NAME: "longstream"}),
        )
        exporter = exporter or OTLPSpanExporter(
            f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_S
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=_EVERY_MS)
        )
        self._tracer = self._provider.get_tracer("longstream")

    @contextmanager
    def span(self, name: str, header: str | None, attributes: Attributes) -> Iterator[str]:
        """A span that the block is; what to put into the header of what comes of it. Without a
        header it belongs to whatever span the caller is in."""
        job = str(attributes["longstream.job"])
        context = None if name == "job.submit" else self._context(header, job)
        span = self._tracer.start_span(name, context, SpanKind.PRODUCER, attributes)
        try:
            yield _header(span)
        except Exception as error:
            # What it says may be anything.
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.end()

    def attempt(self, header: str | None, lease: Lease, number: int) -> trace.Span:
        """The span of an attempt that begins now. Whoever asks for it ends it."""
        return self._attempt(header, lease, number, {"longstream.key": lease.key})

    def lost(
        self, header: str | None, lease: Lease, number: int, worker: str, from_ms: int, to_ms: int
    ) -> None:
        """The span of an attempt whose worker could not end it."""
        span = self._attempt(header, lease, number, {"longstream.worker": worker}, from_ms)
        span.set_status(StatusCode.ERROR, "worker lost")
        span.end(to_ms * _NS_PER_MS)

    def _attempt(
        self,
        header: str | None,
        lease: Lease,
        number: int,
        more: Attributes,
        from_ms: int | None = None,
    ) -> trace.Span:
        self._ids.take(_id_of(lease.job_id, number))
        return self._tracer.start_span(
            "job.attempt",
            self._context(header, lease.job_id),
            SpanKind.CONSUMER,
            {
                "longstream.job": lease.job_id,
                "longstream.attempt": number,
                "longstream.pool": lease.pool,
                **more,
            },
            start_time=None if from_ms is None else from_ms * _NS_PER_MS,
        )

    def flush(self, within_s: float) -> None:
        self._provider.force_flush(int(within_s * 1000))

    def close(self) -> None:
        self._provider.shutdown()

    def _context(self, header: str | None, job_id: str) -> Context:
        if header is not None:
            return _wire.extract({"traceparent": header})
        # Submitted by someone who does not trace: all attempts still belong together.
        digest = hashlib.sha256(job_id.encode()).digest()
        number = int.from_bytes(digest[:16])
        decided = self._share.should_sample(None, number, "job.submit").decision
        sampled = decided is Decision.RECORD_AND_SAMPLE
        parent = SpanContext(
            trace_id=number,
            span_id=int.from_bytes(digest[16:24]),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT),
        )
        return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


class _Ids(RandomIdGenerator):
    """Gives the next span of this thread the id that was asked for."""

    def __init__(self) -> None:
        self._asked = threading.local()

    def take(self, span_id: int) -> None:
        self._asked.id = span_id

    def generate_span_id(self) -> int:
        asked: int | None = getattr(self._asked, "id", None)
        self._asked.id = None
        return super().generate_span_id() if asked is None else asked


def _id_of(job_id: str, attempt: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{job_id} {attempt}".encode()).digest()[:8]) or 1


def _header(span: trace.Span) -> str:
    carrier: dict[str, str] = {}
    _wire.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier["traceparent"]
