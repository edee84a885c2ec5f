"""The chaos run must find what is broken: a verdict that can not fail would prove nothing."""

from __future__ import annotations

import pytest

from tasks.local.chaos.plan import Fault, Job, plan
from tasks.local.chaos.readers import Heard
from tasks.local.chaos.verdict import Facts, Verdict, judge, seed_of
from tests.harness.logs import LogMaker
from worker.log.entries import Mode
from worker.log.stored import Stored
from worker.log.view import Cut, End, Text

JOB = Job(id="j", model="sim:plain", prompt="Say it.", at_s=0.0, policy="auto")
TRUTH = "whole text"


def log(*texts: str) -> list[Stored]:
    made = LogMaker()
    made.claim(Mode.START)
    for text in texts or (TRUTH[:5], TRUTH[5:]):
        made.say(text)
    made.seal()
    return made.log


def request(path: str = "/v1/chat/completions", visible: str = TRUTH) -> dict[str, object]:
    return {"path": path, "prompt_seed": seed_of(JOB), "visible": visible}


def found(
    *,
    outcome: str = "completed",
    stored: list[Stored] | None = None,
    requests: int = 1,
    heard: Heard | None = None,
) -> dict[str, list[str]]:
    facts = [Facts(JOB, outcome, 1, log() if stored is None else stored)]
    ledger = [request() for _ in range(requests)]
    verdict = judge(facts, [heard or Heard("j", "live", TRUTH, "completed")], ledger)
    return {name: each for name, each in verdict.rows().items() if each}


def test_a_run_that_kept_every_promise_has_nothing_to_show() -> None:
    assert found() == {}
    assert Verdict().ok


def test_taking_a_response_up_again_is_no_second_generation() -> None:
    ledger = [request(), request("/v1/responses/resp_1", TRUTH[5:])]
    facts = [Facts(JOB, "completed", 1, log())]
    assert judge(facts, [], ledger).ok


@pytest.mark.parametrize(("broken", "row"), [
    ({"outcome": "failed"}, "jobs lost"),
    ({"outcome": ""}, "jobs lost"),
    ({"requests": 0}, "jobs lost"),
    ({"requests": 2}, "jobs doubled"),
    ({"stored": log("whole ", "tex")}, "readers whose text differs"),
    ({"stored": log(TRUTH, TRUTH)}, "readers whose text differs"),
    ({"heard": Heard("j", "late", TRUTH + TRUTH, "completed")}, "readers whose text differs"),
    ({"heard": Heard("j", "late", "", "")}, "readers whose text differs"),
    ({"heard": Heard("j", "live", TRUTH, wrong="a gap")}, "readers whose text differs"),
    ({"stored": log()[:1] + log()[2:]}, "entries changed, missing or out of order"),
    ({"stored": log()[::-1]}, "entries changed, missing or out of order"),
    ({"stored": log()[:-1]}, "entries changed, missing or out of order"),
])  # fmt: skip
def test_whatever_is_broken_is_found(broken: dict[str, object], row: str) -> None:
    assert row in found(**broken)  # type: ignore[arg-type]


def test_a_verdict_never_quotes_a_text() -> None:
    shown = str(found(heard=Heard("j", "live", "whole lie", "completed")))
    assert "the same up to 6" in shown
    assert "lie" not in shown


def test_a_reader_notices_a_gap_a_repeat_and_a_step_back() -> None:
    heard = Heard("j", "live")
    heard.take(Text(cursor="1-1", offset=0, text="ab"))
    heard.take(Cut(cursor="2-0", offset=1))
    heard.take(Text(cursor="2-1", offset=1, text="c"))
    assert (heard.text, heard.wrong) == ("ac", "")
    heard.take(End(cursor="2-2", outcome="completed", length=2, digest="", attempts=2))
    assert heard.outcome == "completed"
    heard.take(Text(cursor="2-3", offset=9, text="x"))
    assert "text at 9" in heard.wrong
    heard.take(Text(cursor="1-9", offset=10, text="y"))
    assert "came behind" in heard.wrong


def test_the_same_seed_makes_the_same_plan_and_half_of_its_faults_kill() -> None:
    faults = tuple(Fault)
    assert plan(1000, 4, 7, faults) == plan(1000, 4, 7, faults)
    assert plan(1000, 4, 7, faults) != plan(1000, 4, 8, faults)
    kinds = [blow.fault for blow in plan(1000, 4, 7, faults).blows]
    assert kinds.count(Fault.KILL) == 200
    assert set(kinds) == set(Fault)


def test_a_small_plan_still_has_every_fault_and_only_those_asked_for() -> None:
    assert {blow.fault for blow in plan(5, 2, 1, tuple(Fault)).blows} >= set(Fault) - {Fault.KILL}
    only = plan(50, 2, 1, (Fault.DRAIN,))
    assert {blow.fault for blow in only.blows} == {Fault.DRAIN}
    assert [job.at_s for job in only.jobs] == sorted(job.at_s for job in only.jobs)
