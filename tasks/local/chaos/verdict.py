"""What was said against what was sent. Pure: facts in, counts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tasks.local.chaos.plan import Job
from tasks.local.chaos.readers import Heard
from tasks.local.simulator.ask import prompt_seed
from worker.log.cursor import Cursor
from worker.log.stored import Stored, clean_text
from worker.log.verify import verify

#: Requests that begin an answer; others take one up or cancel it.
_GENERATIONS = ("/v1/chat/completions", "/v1/responses")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one job when all is over."""

    job: Job
    outcome: str
    attempts: int
    log: Sequence[Stored]


@dataclass
class Verdict:
    """Every list must be empty; each line in it says which job and what."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(self.rows().values())

    def rows(self) -> dict[str, list[str]]:
        return {
            "jobs lost": self.lost,
            "jobs doubled": self.doubled,
            "readers whose text differs": self.differing,
            "entries changed, missing or out of order": self.disordered,
            "leases leaked": self.leases,
            "keys leaked": self.keys,
        }


def seed_of(job: Job) -> str:
    """How the simulator's ledger knows the job's requests."""
    return prompt_seed(job.model, job.prompt)


def judge(
    facts: Sequence[Facts], heard: Sequence[Heard], ledger: Sequence[Mapping[str, object]]
) -> Verdict:
    """Compare every job and every reader with what the simulator says it was meant to send."""
    verdict = Verdict()
    asked: dict[str, list[Mapping[str, object]]] = {}
    for entry in ledger:
        if entry["path"] not in _GENERATIONS:
            continue
        asked.setdefault(str(entry["prompt_seed"]), []).append(entry)
    truths: dict[str, str] = {}
    for fact in facts:
        requests = asked.get(seed_of(fact.job), [])
        texts = {str(entry["visible"]) for entry in requests}
        truths[fact.job.id] = texts.pop() if len(texts) == 1 else ""
        _judge_job(verdict, fact, len(requests), truths[fact.job.id])
    for each in heard:
        if each.wrong or each.text != truths.get(each.job_id):
            why = each.wrong or _difference(each.text, truths.get(each.job_id, ""))
            verdict.differing.append(f"{each.job_id} {each.kind}: {why}")
    return verdict


def _judge_job(verdict: Verdict, fact: Facts, requests: int, truth: str) -> None:
    job = fact.job.id
    if fact.outcome != "completed" or not truth:
        verdict.lost.append(f"{job}: {fact.outcome or 'not ended'}, {fact.attempts} attempts")
        return
    # A run that nobody claimed asks the provider once more than there are attempts.
    if requests > fact.attempts:
        verdict.doubled.append(f"{job}: {requests} requests in {fact.attempts} attempts")
    text = clean_text(fact.log)
    if text != truth:
        verdict.differing.append(f"{job} log: {_difference(text, truth)}")
    ids = [each.at for each in fact.log]
    found = verify(fact.log, ended=True, attempts=fact.attempts).findings
    verdict.disordered += [f"{job} {each.id} {each.fault}: {each.says}" for each in found]
    if ids != sorted(set(ids)) or not ids or ids[0] != Cursor(1, 0):
        verdict.disordered.append(f"{job}: ids do not rise from 1-0")


def _difference(text: str, truth: str) -> str:
    """Where they part; never the text itself."""
    same = next((n for n, (a, b) in enumerate(zip(text, truth, strict=False)) if a != b), None)
    at = min(len(text), len(truth)) if same is None else same
    return f"{len(text)} characters for {len(truth)}, the same up to {at}"
