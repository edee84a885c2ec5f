"""What a run consists of: pure, and the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Fault(StrEnum):
    KILL = "kill"
    PAUSE = "pause"
    REDIS_RESTART = "redis-restart"
    REDIS_KILL = "redis-kill"
    PARTITION = "partition"
    UPSTREAM_RESET = "upstream-reset"
    UPSTREAM_STALL = "upstream-stall"
    DUPLICATE_MESSAGE = "duplicate-message"
    DRAIN = "drain"


#: Models and how often each is asked for: short answers, bursts of reasoning, long answers, and
#: background responses, which are taken up again instead of restarted.
_MODELS = {
    "sim:plain": 50,
    "gpt-5.5-codex": 20,
    "sim:slow": 10,
    "deepseek-v3.2": 20,
}
#: Served by the pool whose key uses background responses.
BACKGROUND = "deepseek-*"
#: Faults for each job; half of them kill a worker when kills are asked for.
_FAULTS_PER_JOB = 0.4
_KILL_SHARE = 0.5
#: Between two faults, in seconds: on average half of what it takes to start a worker again.
_PACE_S = 2.0
#: Jobs come during this share of the faults, so that the last fault still meets some.
_COMING_SHARE = 0.9


class Job(msgspec.Struct, frozen=True):
    """`at_s`: when it is submitted, from the start of the run."""

    id: str
    model: str
    prompt: str
    at_s: float
    policy: str


class Blow(msgspec.Struct, frozen=True):
    """One fault at a time. `draw`: a number that decides what it hits."""

    fault: Fault
    at_s: float
    draw: float


@dataclass(frozen=True, slots=True)
class Plan:
    jobs: tuple[Job, ...]
    blows: tuple[Blow, ...]
    workers: int


def plan(jobs: int, workers: int, seed: int, faults: tuple[Fault, ...]) -> Plan:
    """Kills are half of all faults; every kind comes at least once."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    kinds = _kinds(chance, round(jobs * _FAULTS_PER_JOB), faults)
    ends_s = max(1.0, len(kinds) * _PACE_S)
    blows = tuple(
        Blow(kind, (number + chance.random()) * _PACE_S, chance.random())
        for number, kind in enumerate(kinds)
    )
    names, weights = list(_MODELS), list(_MODELS.values())
    coming = sorted(chance.random() * ends_s * _COMING_SHARE for _ in range(jobs))
    made = tuple(
        Job(
            id=f"chaos-{seed}-{number}",
            model=chance.choices(names, weights)[0],
            prompt=f"Tell what happened in case {number} of {seed}.",
            at_s=at_s,
            policy=chance.choice(["auto", "auto", "auto", "restart"]),
        )
        for number, at_s in enumerate(coming)
    )
    return Plan(made, blows, workers)


def _kinds(chance: random.Random, count: int, faults: tuple[Fault, ...]) -> list[Fault]:
    if not faults:
        return []
    kills = round(count * _KILL_SHARE) if Fault.KILL in faults else 0
    others: list[Fault] = [fault for fault in faults if fault is not Fault.KILL] or [Fault.KILL]
    rest = max(count - kills, len(others))
    kinds = [Fault.KILL] * kills + [others[number % len(others)] for number in range(rest)]
    chance.shuffle(kinds)
    return kinds
