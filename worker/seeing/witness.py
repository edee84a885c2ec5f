"""What an attempt tells of itself while it runs: to the log, to the meters and to its trace.

The only seam between the engine and what watches it. Of the chunks that bring text, `came` hears of
two in a row and then not for a while; everything else is called a few times an attempt.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from worker.admission.line import Lease
from worker.log.claim import Claim
from worker.log.entries import Tokens
from worker.outcomes import Outcome
from worker.seeing.meters import METERS, SAMPLED, Meters
from worker.upstream.failures import UpstreamFailure

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from worker.seeing.spans import Traces

#: How the log words it that an attempt's worker died.
WORKER_LOST = "worker lost: "

_LOOK = "see what else writes to this job's keys; the job waits, and is tried again"

_log = structlog.get_logger()


class Witness:
    """Of one attempt. Belongs to the engine's loop."""

    def __init__(
        self,
        lease: Lease,
        trace: str | None = None,
        traces: Traces | None = None,
        *,
        meters: Meters = METERS,
    ) -> None:
        """`trace`: the span the attempt belongs to, as its message said."""
        self._lease = lease
        self._trace = trace
        self._meters = meters
        self._traces = traces
        self._span: Span | None = None
        self._log = _log.bind(job=lease.job_id, key=lease.key)
        self._key = lease.key
        self._asked_at = 0.0
        self._at = 0.0
        self._first_thought = self._first_text = True
        self._gaps = meters.inter_token.of(lease.key)
        self._to_log = meters.to_log.of()

    def dropped(self) -> None:
        """The message came without a lease that still holds."""
        self._log.info("job.message_dropped", lease=self._lease.number)
        self._yielded("dropped")

    def not_claimed(self) -> None:
        self._yielded("not_claimed")

    def claimed(self, claim: Claim) -> None:
        self._log = self._log.bind(attempt=claim.attempt, mode=claim.mode)
        self._log.info("job.claimed", crashes=claim.crashes)
        self._begin_span(claim)
        self._meters.attempts.add(self._lease.pool, claim.mode)
        if claim.attempt == 1:
            waited_s = (claim.began_ms - claim.created_ms) / 1000
            self._meters.waited.of(self._lease.pool).observe(waited_s)

    def asked(self, key: str) -> None:
        """The request goes out, with this key."""
        self._key = key
        self._gaps = self._meters.inter_token.of(key)
        self._asked_at = time.monotonic()
        self._event("asked", key=key)

    def came(self) -> int:
        """A chunk brought text. How many more may before this is to be told again."""
        now = time.monotonic()
        if self._first_text:
            self._first_text = False
            self._first("text")
        elif self._at:
            self._gaps.observe(now - self._at)
            self._at = 0.0
            return SAMPLED - 2
        self._at = now
        return 0

    def thought(self) -> None:
        """A read brought reasoning."""
        if self._first_thought:
            self._first_thought = False
            self._first("reasoning")

    def stored(self, took_s: float) -> None:
        """A text that was to be timed is in the log."""
        self._to_log.observe(took_s)

    def rejoining(self, failure: UpstreamFailure) -> None:
        """The stream was cut, and is taken up within the attempt."""
        self._log.info("upstream.rejoining", kind=failure.kind, fault=failure.fault)
        self._failure(failure)
        self._event("reattach")
        self._meters.rejoined.add(self._key)

    def failed(self, failure: UpstreamFailure) -> None:
        self._log.warning(
            "job.upstream_failed",
            kind=failure.kind,
            fault=failure.fault,
            request=failure.request_id,
        )
        self._failure(failure)

    def fell_back(self, other: str, failure: UpstreamFailure) -> None:
        """The model was not served, and another is asked."""
        self._log.warning("job.fallback", kind=failure.kind, model=other)

    def code_failed(self, error: Exception) -> None:
        """The message may quote the answer, so only its type goes on."""
        self._log.error("job.task_code_failed", error=type(error).__name__)

    def fenced(self, error: Exception) -> None:
        self._log.warning("job.fenced", error=str(error))
        self._yielded("fenced")

    def refused(self, error: Exception, wait_s: float) -> None:
        """The job's keys are not what they were; only a person can mend that."""
        self._log.error("job.store_refused", says=str(error), remedy=_LOOK, wait_s=wait_s)
        self._yielded("refused")

    def lost(self) -> None:
        self._log.warning("job.lease_lost")
        self._yielded("lease_lost")

    def handed_back(self, wait_s: float) -> None:
        self._log.info("job.handed_back", wait_s=round(wait_s, 3))
        self._yielded("handed_back")

    def sealed(self, outcome: Outcome, length: int, tokens: Tokens) -> None:
        self._log.info("job.finished", outcome=outcome, length=length)
        self._meters.ended.add(self._lease.pool, outcome)
        self.used(tokens)
        used = {
            "gen_ai.usage.input_tokens": tokens.input,
            "gen_ai.usage.output_tokens": tokens.output,
        }
        self._end_span(outcome, **{"longstream.length": length, **used})

    def used(self, tokens: Tokens) -> None:
        """What the provider billed."""
        for kind in Tokens.__struct_fields__:
            if number := getattr(tokens, kind):
                self._meters.tokens.add(self._key, kind, by=number)

    def over(self) -> None:
        """Nothing more comes of the attempt, whatever was told of it."""
        self._end_span("given_up")

    def _begin_span(self, claim: Claim) -> None:
        if self._traces is None:
            return
        header = self._trace
        if claim.before_ms and claim.reason.startswith(WORKER_LOST):
            worker = claim.reason.removeprefix(WORKER_LOST)
            times = (claim.before_ms, claim.began_ms)
            self._traces.lost(header, self._lease, claim.attempt - 1, worker, *times)
        self._span = self._traces.attempt(header, self._lease, claim.attempt)
        self._span.set_attribute("longstream.mode", claim.mode)

    def _event(self, name: str, **attributes: str) -> None:
        if self._span is not None:
            self._span.add_event(name, attributes)

    def _end_span(self, why: str, **attributes: str | int) -> None:
        if self._span is not None:
            self._span.set_attributes({"longstream.ended": why, **attributes})
            self._span.end()
            self._span = None

    def _first(self, kind: str) -> None:
        self._event("first_delta" if kind == "text" else "first_reasoning")
        took_s = time.monotonic() - self._asked_at
        self._meters.first_token.of(self._key, kind).observe(took_s)

    def _failure(self, failure: UpstreamFailure) -> None:
        after_text = "yes" if failure.visible else "no"
        name = "cut" if failure.visible or failure.reasoning else "refused"
        self._event(name, kind=failure.kind, fault=failure.fault)
        self._meters.failures.add(self._key, failure.kind, after_text)

    def _yielded(self, why: str) -> None:
        self._end_span(why)
        self._meters.yielded.add(self._lease.pool, why)
