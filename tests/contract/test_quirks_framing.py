"""Quirks of framing: every one here has cost somebody a delta, or a whole answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.asking import ask, fail, noted, quick_client, text_of
from tests.harness.wire import DONE, END, PAUSE, Script, chunk, delta, head, stream
from worker.outcomes import Outcome
from worker.upstream.client import Client
from worker.upstream.happenings import Finished

ON = ("engine",)

STOP = delta("stop") + DONE


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with quick_client() as client:
        yield client


def pieces(data: bytes, size: int) -> list[bytes]:
    return [chunk(data[at : at + size]) for at in range(0, len(data), size)]


async def test_q01_comment_keep_alives_do_not_reach_the_parser(client: Client) -> None:
    script = stream(
        b": OPENROUTER PROCESSING\n\n", delta(content="a"), b": ping\n", b": keep-alive\n\n",
        delta(content="b"), STOP,
    )  # fmt: skip

    assert text_of(await ask(client, script)) == "ab"


async def test_q02_comments_glued_to_an_event_do_not_split_it(client: Client) -> None:
    script = stream(
        b"event: x\n: hb\n" + delta(content="a"),
        delta("stop"),
        b": x-cost=0.1\n: x-model=m\n" + DONE,
    )

    happenings = await ask(client, script)
    assert text_of(happenings) == "a"
    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")


async def test_q03_a_comment_sent_again_as_data_is_no_json_error(client: Client) -> None:
    script = stream(b"data: : OPENROUTER PROCESSING\n\n", delta(content="a"), STOP)

    happenings, notes = await noted(client, script)
    assert text_of(happenings) == "a"
    assert notes["comment_as_data"] == 1


async def test_q04_no_space_after_the_colon_does_not_empty_the_answer(client: Client) -> None:
    script = stream((delta(content="a") + STOP).replace(b"data: ", b"data:"))

    assert text_of(await ask(client, script)) == "a"


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("ending", [b"\r\n", b"\r", b"\n"])
async def test_q05_any_line_end_and_any_cut_of_it_frames_the_same(
    client: Client, ending: bytes, size: int
) -> None:
    body = (delta(content="a") + delta(content="b") + STOP).replace(b"\n", ending)

    happenings = await ask(client, [head(), *pieces(body, size), END])
    assert text_of(happenings) == "ab"


@pytest.mark.parametrize("size", [1, 10_000])
async def test_q06_a_bom_does_not_cost_the_first_event(client: Client, size: int) -> None:
    body = b"\xef\xbb\xbf" + delta(content="a") + STOP

    assert text_of(await ask(client, [head(), *pieces(body, size), END])) == "a"


async def test_q07_unicode_line_separators_do_not_cut_json_in_half(client: Client) -> None:
    text = "a\u2028b\u2029c\u0085d"
    raw = f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()

    assert text_of(await ask(client, stream(raw, STOP))) == text


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
async def test_q07_control_characters_do_not_cut_json_in_half(client: Client, control: str) -> None:
    raw = f'data: {{"choices":[{{"delta":{{"content":"a{control}b"}}}}]}}\n\n'.encode()

    assert text_of(await ask(client, stream(raw, STOP))) == f"a{control}b"


@pytest.mark.parametrize("left", [b"", b"\n"])
async def test_q08_a_final_event_without_its_blank_line_is_not_lost(
    client: Client, left: bytes
) -> None:
    tail = delta("stop", content="b").rstrip(b"\n") + left

    happenings, notes = await noted(client, stream(delta(content="a"), tail))
    assert text_of(happenings) == "ab"
    assert happenings[-1] == Finished(Outcome.COMPLETED, "stop")
    assert notes["unterminated_tail"] == 1


async def test_q08_half_an_event_at_the_end_is_not_delivered(client: Client) -> None:
    failure, seen = await fail(client, stream(delta(content="a"), delta(content="b")[:30]))

    assert (text_of(seen), failure.kind) == ("a", "truncated")


async def test_q08_a_whole_tail_of_a_broken_connection_is_not_delivered(client: Client) -> None:
    tail = delta("stop", content="b").rstrip(b"\n")

    failure, seen = await fail(client, [head(), chunk(delta(content="a") + tail)])
    assert (text_of(seen), failure.kind) == ("a", "truncated")


async def test_q09_two_documents_in_one_event_are_both_delivered(client: Client) -> None:
    glued = delta(content="a")[:-1] + delta(content="b")

    happenings, notes = await noted(client, stream(glued, STOP))
    assert text_of(happenings) == "ab"
    assert notes["glued_documents"] == 1


async def test_q10_a_document_over_many_data_lines_is_not_overwritten(client: Client) -> None:
    pretty = b"".join(b"data: %b\n" % line for line in (b"{", b'"choices": [', b'{"delta":',
                      b'{"content": "a"}', b"}]", b"}")) + b"\n"  # fmt: skip

    assert text_of(await ask(client, stream(pretty, STOP))) == "a"


async def test_q11_blocks_without_data_are_no_json_error(client: Client) -> None:
    script = stream(
        b"retry: 3000\n\n", b"event: ping\n\n", b"data:\n\n", b"data\n\n", delta(content="a"), STOP
    )

    assert text_of(await ask(client, script)) == "a"


async def test_q12_an_id_and_then_a_keep_alive_is_no_crash(client: Client) -> None:
    script = stream(b"id: 1\n" + delta(content="a"), b": ping\n\n", b": ping\n\n", STOP)

    assert text_of(await ask(client, script)) == "a"


async def test_q13_a_character_cut_by_a_read_is_not_replaced(client: Client) -> None:
    raw = 'data: {"choices":[{"delta":{"content":"价\U0001f600"}}]}\n\n'.encode()

    assert text_of(await ask(client, [head(), *pieces(raw + STOP, 1), END])) == "价\U0001f600"


async def test_q13_a_character_in_two_deltas_is_not_two_broken_halves(client: Client) -> None:
    halves = (
        rb'data: {"choices":[{"delta":{"content":"\ud83d"}}]}' + b"\n\n",
        rb'data: {"choices":[{"delta":{"content":"\ude00"}}]}' + b"\n\n",
    )

    assert text_of(await ask(client, stream(*halves, STOP))) == "\U0001f600"


async def test_q14_one_bad_byte_does_not_kill_the_stream(client: Client) -> None:
    raw = b'data: {"choices":[{"delta":{"content":"a\xffb"}}]}\n\n'

    happenings, notes = await noted(client, stream(raw, delta(content="c"), STOP))
    assert text_of(happenings) == "a\ufffdbc"
    assert notes["replaced_bytes"] == 1


async def test_q15_a_very_large_event_is_not_cut_off(client: Client) -> None:
    text = "x" * 3 * 2**20

    assert text_of(await ask(client, stream(delta(content=text), STOP))) == text


async def test_q16_a_line_that_never_ends_does_not_eat_the_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.upstream.answer.LIMIT_BYTES", 2**20)
    script: Script = [head(), chunk(delta(content="a")), *[chunk(b"x" * 2**16)] * 40, PAUSE]

    failure, seen = await fail(client, script)
    assert (text_of(seen), failure.kind) == ("a", "protocol")
    assert "larger than" in str(failure)
