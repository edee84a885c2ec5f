"""What an attempt tells of itself, as numbers."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from worker.admission.line import Lease
from worker.admission.tickets import PLAIN
from worker.log.claim import Account, Claim
from worker.log.cursor import START
from worker.log.entries import Mode, Tokens
from worker.outcomes import Outcome
from worker.seeing.meters import MOST_VALUES, OTHER, SAMPLED, Few, Meters
from worker.seeing.witness import Witness
from worker.upstream.failures import failure_of_answer, truncated

LEASE = Lease(job_id="a1b2c3", pool="p", number=7, key="k")


def claim(attempt: int = 1, mode: Mode = Mode.START, reason: str = "", before_ms: int = 0) -> Claim:
    return Claim(
        attempt=attempt,
        first=msgspec.json.encode(None),
        mode=mode,
        base=START,
        offset=0,
        reason=reason,
        lost=(),
        cancelled=False,
        failures=0,
        deadline_ms=None,
        point=None,
        created_ms=1_000,
        before_ms=before_ms,
        began_ms=3_500,
        on_interrupt="auto",
        account=Account(accounted=0, booked=0, task="t", ticket=PLAIN, max_cost_micros=0),
    )


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def seen(meters: Meters) -> Witness:
    return Witness(LEASE, meters=meters)


def test_the_wait_is_that_of_the_first_attempt(seen: Witness, meters: Meters) -> None:
    seen.claimed(claim())
    seen.claimed(claim(attempt=2, mode=Mode.RESTART))

    assert meters.waited.of("p").total == [2.5]
    assert meters.attempts.values == {("p", "start"): 1, ("p", "restart"): 1}


def test_the_first_token_counts_once_for_reasoning_and_once_for_text(
    seen: Witness, meters: Meters
) -> None:
    seen.asked("k")
    for told in (seen.thought, seen.thought, seen.came, seen.came, seen.thought):
        told()

    assert {at: sum(d.counts) for at, d in meters.first_token.values.items()} == {
        ("k", "reasoning"): 1,
        ("k", "text"): 1,
    }


def reads(seen: Witness, count: int) -> int:
    """How often the witness wants to be told of so many reads."""
    told = unseen = 0
    for _ in range(count):
        unseen -= 1
        if unseen < 0:
            unseen = seen.came()
            told += 1
    return told


def test_one_gap_in_so_many_is_timed_and_hardly_a_read_is_told(
    seen: Witness, meters: Meters
) -> None:
    seen.asked("k")

    assert reads(seen, 10 * SAMPLED) == 20
    assert sum(meters.inter_token.of("k").counts) == 10


def test_a_timed_gap_is_one_between_two_reads_that_follow_each_other(
    seen: Witness, meters: Meters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read comes 1 s after the last one: a gap over several would be longer."""
    read = 0
    monkeypatch.setattr("worker.seeing.witness.time.monotonic", lambda: float(read))
    unseen = 0
    for _ in range(300):
        read += 1
        unseen -= 1
        if unseen < 0:
            unseen = seen.came()

    gaps = meters.inter_token.of("k")
    assert sum(gaps.counts) == 300 // SAMPLED + 1
    assert gaps.total == [sum(gaps.counts)]


def test_a_cut_answer_is_told_from_a_refused_one(seen: Witness, meters: Meters) -> None:
    cut = truncated()
    cut.visible = 12
    seen.rejoining(cut)
    seen.failed(failure_of_answer(429, {}, b""))

    assert meters.failures.values == {("k", "truncated", "yes"): 1, ("k", "rate_limited", "no"): 1}
    assert meters.rejoined.values == {("k",): 1}


def test_a_seal_counts_its_outcome_and_what_was_billed(seen: Witness, meters: Meters) -> None:
    seen.sealed(Outcome.COMPLETED, 100, Tokens(input=5, output=70, reasoning=60))

    assert meters.ended.values == {("p", "completed"): 1}
    assert meters.tokens.values == {("k", "input"): 5, ("k", "output"): 70, ("k", "reasoning"): 60}


def test_a_label_that_users_choose_has_a_bounded_number_of_values() -> None:
    few = Few()
    names = {few.name(f"model-{number}") for number in range(1000)}

    assert len(names) == MOST_VALUES + 1
    assert OTHER in names
    assert few.name("model-0") == "model-0"


def test_a_failed_request_is_logged_with_the_id_its_provider_gave_it(seen: Witness) -> None:
    with capture_logs() as told:
        seen.failed(failure_of_answer(500, {"x-request-id": "req_8f3b"}, b""))
    assert [line["request"] for line in told] == ["req_8f3b"]
