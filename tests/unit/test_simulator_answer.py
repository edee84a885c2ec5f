"""The answers of the simulator: seeded, bounded, and obedient to the parameters."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from tasks.local.simulator.answer import BURST_TOKENS, GAP_S, Answer, Burst, bursts, family
from tasks.local.simulator.ask import Ask, Refusal, parse_chat
from tasks.local.simulator.beats import CLUMP_EVENT_TOKENS, KEEPALIVE_S, Kind, beats
from tasks.local.simulator.prose import OPENING, tokens
from tasks.local.simulator.scenarios import every
from tests.harness.simulated import chat_ask

SCENARIOS = every()

prompts = st.text(max_size=40)


def thinking(answer: Answer) -> int:
    return sum(burst.tokens for burst in answer.bursts)


@given(st.text())
def test_tokens_add_up_to_the_text_they_were_cut_from(text: str) -> None:
    assert "".join(tokens(text)) == text


@given(prompts)
def test_a_plain_answer_has_60_to_400_tokens_and_says_that_it_is_simulated(prompt: str) -> None:
    answer = family(chat_ask(prompt))

    assert 60 <= len(answer.tokens) <= 400
    assert answer.text.startswith(OPENING)


def test_different_prompts_get_different_answers() -> None:
    assert family(chat_ask("one")).text != family(chat_ask("two")).text


@given(prompts, st.integers(0, 500))
def test_an_output_limit_cuts_the_text_to_a_prefix(prompt: str, limit: int) -> None:
    whole = family(chat_ask(prompt))

    cut = family(chat_ask(prompt, max_tokens=limit))

    assert cut.tokens == whole.tokens[:limit]
    assert cut.finish == ("length" if limit < len(whole.tokens) else "stop")


@given(prompts, st.integers(0, 6_000))
def test_reasoning_never_exceeds_its_cap(prompt: str, cap: int) -> None:
    free = family(chat_ask(prompt))

    capped = family(chat_ask(prompt, max_reasoning_tokens=cap))

    assert thinking(capped) == min(cap, thinking(free))
    assert capped.tokens == free.tokens


@given(prompts)
def test_bursts_and_gaps_stay_within_the_published_bounds(prompt: str) -> None:
    for burst in family(chat_ask(prompt)).bursts:
        assert BURST_TOKENS[0] <= burst.tokens <= BURST_TOKENS[1]
        assert GAP_S[0] <= burst.gap_s <= GAP_S[1]


def test_low_effort_removes_about_78_percent_of_the_bursts_and_shrinks_the_rest() -> None:
    asks = [chat_ask(f"prompt {number}") for number in range(400)]
    low = [msgspec.structs.replace(ask, effort="low") for ask in asks]
    before = [burst for ask in asks for burst in bursts(ask, 300)]
    after = [burst for ask in low for burst in bursts(ask, 300)]

    assert 0.75 < 1 - len(after) / len(before) < 0.81
    assert sum(b.tokens for b in after) / len(after) < sum(b.tokens for b in before) / len(before)


@given(prompts, st.integers(1, 600))
def test_a_chunk_buffer_forces_a_flush_about_every_so_many_tokens(prompt: str, size: int) -> None:
    ask = chat_ask(prompt, reasoning_chunk_buffer=size)
    answer = family(ask)
    clump, largest, total = 0, 0, 0
    for beat in beats(ask, answer):
        if beat.kind is Kind.THINK:
            clump = clump + beat.tokens if beat.joined else beat.tokens
            largest = max(largest, clump)
            total += beat.tokens

    assert largest <= max(size, 1)
    assert total == thinking(answer)


@given(prompts)
def test_beats_carry_the_whole_answer_in_order(prompt: str) -> None:
    ask = chat_ask(prompt)
    answer = family(ask)
    seen = list(beats(ask, answer))

    assert tuple(beat.text for beat in seen if beat.kind is Kind.TEXT) == answer.tokens
    assert sum(beat.tokens for beat in seen if beat.kind is Kind.THINK) == thinking(answer)
    assert max(beat.tokens for beat in seen) <= CLUMP_EVENT_TOKENS
    assert seen[-1].kind is Kind.FINISH


def test_a_long_silence_is_broken_by_keepalives() -> None:
    ask = chat_ask("quiet")
    seen = [beat for number in range(30) for beat in beats(chat_ask(f"{number}"), family(ask))]

    assert Kind.KEEPALIVE in {beat.kind for beat in seen}
    assert max(beat.pause_s for beat in seen) <= KEEPALIVE_S


@given(prompts, st.none() | st.integers(1, 600))
def test_the_silences_of_a_burst_add_up_to_its_gap(prompt: str, size: int | None) -> None:
    ask = chat_ask(prompt, reasoning_chunk_buffer=size)
    burst = Burst(0, 1_000, 7.0, clumped=True)

    seen = list(beats(ask, Answer((), (burst,))))[1:]

    assert sum(beat.pause_s for beat in seen) == pytest.approx(7.0)


def test_the_pace_of_visible_tokens_is_the_published_one() -> None:
    ask = chat_ask(model="sim:long")
    gaps = sorted(
        beat.pause_s
        for beat in beats(ask, SCENARIOS["sim:long"].intended(ask))
        if beat.kind is Kind.TEXT
    )

    assert 0.036 < gaps[len(gaps) // 2] < 0.040
    assert 0.086 < gaps[int(len(gaps) * 0.95)] < 0.096


def test_named_sizes_are_kept() -> None:
    def answer(model: str) -> Answer:
        return SCENARIOS[model].intended(chat_ask(model=model))

    assert thinking(answer("sim:think")) == 4_000
    assert 2_000 <= len(answer("sim:slow").tokens) < 2_040
    assert 20_000 <= len(answer("sim:long").tokens) < 20_040
    assert thinking(answer("sim:plain")) == 0


def test_a_body_without_messages_is_refused_by_the_parameters_name() -> None:
    refusal = parse_chat(b'{"model": "gpt-4.1"}')

    assert isinstance(refusal, Refusal)
    assert refusal.param == "messages"


def test_an_unknown_effort_is_refused_by_name() -> None:
    refusal = parse_chat(
        b'{"model": "gpt-4.1", "messages": [{"role": "user"}], "reasoning_effort": "extreme"}'
    )

    assert isinstance(refusal, Refusal)
    assert refusal.param == "reasoning_effort"


@given(st.binary(max_size=200))
def test_any_bytes_are_either_an_ask_or_a_refusal(body: bytes) -> None:
    assert isinstance(parse_chat(body), Ask | Refusal)


def test_unknown_parameters_are_kept_and_messages_are_not() -> None:
    ask = chat_ask("secret prompt", top_k=7)

    assert ask.parameters["top_k"] == 7
    assert "messages" not in ask.parameters
