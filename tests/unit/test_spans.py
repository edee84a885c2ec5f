"""What the spans of a job say, and which trace they belong to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.test_witness import LEASE, claim
from worker.log.entries import Mode, Tokens
from worker.outcomes import Outcome
from worker.seeing.meters import Meters
from worker.seeing.spans import Traces
from worker.seeing.witness import Witness
from worker.upstream.failures import truncated

JOB = {"longstream.job": LEASE.job_id}


class Memory:
    """Traces that end up in this process."""

    def __init__(self, sample: float = 1.0) -> None:
        self._exporter = InMemorySpanExporter()
        self.traces = Traces("http://127.0.0.1:1", sample, self._exporter)

    def spans(self) -> list[ReadableSpan]:
        self.traces.flush(5)
        return list(self._exporter.get_finished_spans())

    def close(self) -> None:
        self.traces.close()


@pytest.fixture
def memory() -> Iterator[Memory]:
    with closing(Memory()) as made:
        yield made


def ids(spans: list[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for span in spans if span.context is not None}


def test_submit_grant_and_attempt_hang_together(memory: Memory) -> None:
    with memory.traces.span("job.submit", None, JOB) as first:
        pass
    with memory.traces.span("job.grant", first, JOB) as second:
        pass
    memory.traces.attempt(second, LEASE, 1).end()

    submit, grant, attempt = memory.spans()
    assert len(ids([submit, grant, attempt])) == 1
    assert [s.parent and s.parent.span_id for s in (submit, grant, attempt)] == [
        None,
        submit.context and submit.context.span_id,
        grant.context and grant.context.span_id,
    ]


def test_a_submit_belongs_to_the_span_its_caller_is_in(memory: Memory) -> None:
    with (
        memory.traces._tracer.start_as_current_span("request"),
        memory.traces.span("job.submit", None, JOB),
    ):
        pass

    submit, request = memory.spans()
    assert submit.parent == request.context
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_all_attempts_of_an_untraced_submit_agree_on_a_trace(memory: Memory) -> None:
    with closing(Memory()) as other:
        memory.traces.attempt(None, LEASE, 1).end()
        other.traces.attempt(None, LEASE, 2).end()

        assert len(ids(memory.spans() + other.spans())) == 1


@pytest.mark.parametrize(
    ("sample", "least", "most"), [(0.0, 0, 0), (0.25, 15, 85), (1.0, 200, 200)]
)
def test_a_job_is_traced_whole_or_not_at_all(sample: float, least: int, most: int) -> None:
    with closing(Memory(sample)) as memory:
        for number in range(100):
            job = {"longstream.job": f"job-{number}"}
            with memory.traces.span("job.submit", None, job) as header:
                pass
            memory.traces.attempt(header, LEASE, 1).end()

        spans = memory.spans()
        assert least <= len(spans) <= most
        assert len(spans) == 2 * len(ids(spans))


def test_a_frozen_worker_that_wakes_up_speaks_of_the_same_span(memory: Memory) -> None:
    """Its successor has told that span, since it might have been dead."""
    memory.traces.lost(None, LEASE, 1, "w1", 1_000, 2_000)
    memory.traces.attempt(None, LEASE, 1).end()
    memory.traces.attempt(None, LEASE, 2).end()

    told, own, other = (span.context.span_id for span in memory.spans() if span.context)
    assert told == own
    assert other != own


def test_an_attempt_tells_its_events_and_how_it_ended(memory: Memory) -> None:
    seen = Witness(LEASE, None, memory.traces, meters=Meters())
    seen.claimed(claim())
    seen.asked("k")
    seen.thought()
    seen.came()
    cut = truncated()
    cut.visible = 3
    seen.rejoining(cut)
    seen.sealed(Outcome.COMPLETED, 12, Tokens(input=3, output=4))
    seen.over()

    (attempt,) = memory.spans()
    names = [event.name for event in attempt.events]
    assert names == ["asked", "first_reasoning", "first_delta", "cut", "reattach"]
    assert attempt.attributes is not None
    assert attempt.attributes["longstream.ended"] == "completed"
    assert attempt.attributes["gen_ai.usage.output_tokens"] == 4


def test_the_attempt_after_a_lost_worker_tells_its_span_and_no_other_does(memory: Memory) -> None:
    for reason, spans in (("the provider answered 500", 1), ("worker lost: w1", 2)):
        seen = Witness(LEASE, None, memory.traces, meters=Meters())
        seen.claimed(claim(attempt=2, mode=Mode.RESTART, reason=reason, before_ms=1_000))
        seen.over()
        found = memory.spans()[-spans:]
        assert [s.status.description for s in found] == ["worker lost", None][-spans:]
        assert all(
            s.attributes["longstream.ended"] == "given_up"
            for s in found[spans - 1 :]
            if s.attributes
        )


def printed(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_nothing_of_it_is_loaded_unless_it_is_switched_on() -> None:
    """Redis' own client loads a part of OpenTelemetry where it is installed; what sends is ours."""
    shown = printed(
        "import sys, worker.app, worker.engine, tasks.generate\n"
        "from settings.model import Tracing\n"
        "from worker.seeing import tracing\n"
        "assert tracing.traces(Tracing()) is None\n"
        "print([m for m in sys.modules if m.startswith(('worker.seeing.spans', "
        "'opentelemetry.exporter', 'opentelemetry.sdk.trace'))])"
    )

    assert shown.strip() == "[]"


def test_everything_works_without_the_extra_and_one_line_says_what_is_missing() -> None:
    shown = printed(
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "import worker.app, worker.engine, tasks.generate\n"
        "from settings.model import Tracing\n"
        "from worker.seeing import tracing\n"
        "headers, on = {}, Tracing(endpoint='http://127.0.0.1:1')\n"
        "for _ in range(2):\n"
        "    with tracing.submitting(on, headers, {}): pass\n"
        "print(headers)"
    )

    assert shown.splitlines()[-1] == "{}"
    assert shown.count("longstream[tracing]") == 1
