"""The load of the bench: the published rates and sizes, and faults that nothing announces."""

from __future__ import annotations

import msgspec
import pytest

from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask, prompt_seed
from tasks.local.simulator.ledger import Entry, Ledger
from tasks.local.simulator.scenarios import field, find
from tasks.local.simulator.steps import Ending, Pause, Script, Send
from tests.harness.simulated import chat_ask, steps


def ask_of(number: int, effort: str = "medium", nth: int = 1) -> Ask:
    kind = "reasoning-heavy" if number % 2 else "visible-heavy"
    ask = chat_ask(f"Task {number}, {kind}.", "sim:field", reasoning_effort=effort)
    return msgspec.structs.replace(ask, nth=nth)


def hits(nth: int, count: int = 3_000) -> int:
    scenario = find("sim:field")
    assert scenario is not None
    ask = ask_of(0, nth=nth)
    hit = 0
    for number in range(count):
        seeded = msgspec.structs.replace(ask, seed=number.to_bytes(32, "big"))
        script: Script = scenario.wire(seeded, ())
        hit += script.__name__ != "stream"  # type: ignore[attr-defined]
    return hit


@pytest.mark.parametrize("nth", [1, 2])
def test_one_stream_in_sixty_is_hit_whatever_came_before(nth: int) -> None:
    assert 0.012 < hits(nth) / 3_000 < 0.022


def test_a_heavy_prompt_thinks_4000_tokens_behind_an_opening() -> None:
    answer = field.answer(ask_of(1))

    assert answer.bursts[0] == field._OPENING
    assert sum(burst.tokens for burst in answer.bursts) == 4_030
    assert all(1 <= burst.at < len(answer.tokens) for burst in answer.bursts[1:])
    assert len({burst.at for burst in answer.bursts}) == len(answer.bursts)


def test_low_effort_leaves_about_a_fifth_of_the_bursts_and_none_of_its_own() -> None:
    left: dict[str, int] = {"low": 0, "medium": 0}
    for number in range(600):
        both: dict[str, Answer] = {name: field.answer(ask_of(number, name)) for name in left}
        places = {name: {burst.at for burst in each.bursts} for name, each in both.items()}
        assert places["low"] <= places["medium"]
        for name in left:
            left[name] += len(places[name]) - 1

    assert 0.17 < left["low"] / left["medium"] < 0.27


@pytest.mark.parametrize("fault", [field.stalled, field.reset, field.closed])
def test_a_fault_takes_text_and_says_nothing(fault: field.Fault) -> None:
    ask = ask_of(2)
    whole = list(steps(msgspec.structs.replace(ask, model="sim:field-calm")))
    events = list(find("sim:field-calm").shape(ask, field.answer(ask)))  # type: ignore[union-attr]

    script = list(fault(field.Chance(ask.seed, "test"), events))

    def text(of: list[object]) -> str:
        return "".join(step.text for step in of if isinstance(step, Send))

    assert text(whole).startswith(text(script))
    assert len(text(script)) < len(text(whole))
    assert not any(isinstance(step, Send) and step.finish for step in script)
    last = script[-1]
    if fault is field.closed:
        assert isinstance(last, Pause)
        assert 8.0 <= last.seconds <= 10.0
    else:
        assert last is (Ending.HANG if fault is field.stalled else Ending.RESET)


def test_the_ledger_tells_the_requests_of_one_prompt() -> None:
    ledger = Ledger()
    for number, prompt in enumerate(("one", "two", "one")):
        entry = Entry(id=f"req_{number}", path="/", key="", arrived=float(number))
        ledger.open(entry)
        ledger.intend(entry, chat_ask(prompt), prompt)

    seed = prompt_seed(chat_ask("one").model, "one")
    assert [entry["id"] for entry in ledger.asked(seed)] == ["req_0", "req_2"]
