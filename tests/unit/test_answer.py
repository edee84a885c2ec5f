"""However its bytes are cut, an answer is the same; and a cut answer is never a whole one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tests.harness import wire as framing
from worker.outcomes import Outcome
from worker.upstream.answer import Answer, Dialect
from worker.upstream.chat import Chat
from worker.upstream.failures import truncated
from worker.upstream.happenings import Finished, Happening, Text, Thinking
from worker.upstream.responses import Responses
from worker.upstream.usual import event_at

WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
NOISE = st.sampled_from(
    [b": ping\n\n", b"\n", b"event: x\n\n", b"data:\n\n", b"id: 3\n\n", b"retry: 9\n"]
)
#: A part of an answer: noise, or (is it reasoning, the words).
Part = bytes | tuple[bool, str]
PARTS = st.lists(st.one_of(NOISE, st.tuples(st.booleans(), WORD)), max_size=8)
ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def sse(document: object, end: bytes) -> bytes:
    lines = json.dumps(document, ensure_ascii=False).encode()
    return b"data: " + lines + end + end


def chat_bytes(parts: list[Part], end: bytes) -> bytes:
    out = b""
    for part in parts:
        if isinstance(part, bytes):
            out += part.replace(b"\n", end)
        else:
            name = "reasoning_content" if part[0] else "content"
            out += sse({"choices": [{"delta": {name: part[1]}, "finish_reason": None}]}, end)
    out += sse({"choices": [{"delta": {}, "finish_reason": "stop"}]}, end)
    out += sse({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}, end)
    return out + b"data: [DONE]" + end + end


def responses_bytes(parts: list[Part], end: bytes) -> bytes:
    out, said = b"", ""
    for part in parts:
        if isinstance(part, bytes):
            out += part.replace(b"\n", end)
            continue
        kind = "reasoning_text" if part[0] else "output_text"
        said += "" if part[0] else part[1]
        event = {"type": f"response.{kind}.delta", "item_id": kind, "delta": part[1]}
        out += sse(event, end)
    content = [{"type": "output_text", "text": said}]
    output = [{"id": "output_text", "type": "message", "content": content}]
    return out + sse({"type": "response.completed", "response": {"output": output}}, end)


def read(
    dialect: Dialect, chunks: list[bytes], how: str = "close"
) -> tuple[Answer, list[Happening]]:
    answer = Answer(dialect)
    happenings: list[Happening] = []
    for chunk in chunks:
        if not answer.over:
            happenings += answer.feed(chunk)
    if not answer.over:
        happenings += answer.close() if how == "close" else answer.cut(truncated())
    return answer, happenings


def read_as_it_comes(dialect: Dialect, documents: list[bytes]) -> tuple[Answer, list[Happening]]:
    """Every document in a read of its own, the usual way where that takes it."""
    answer = Answer(dialect)
    happenings: list[Happening] = []
    for document in documents:
        event = b"data: " + document + b"\n\n"
        say, found = answer.usual, event_at(framing.chunk(event), 0)
        one = None if say is None or found is None else say(found[0])
        happenings += answer.feed(event) if one is None else [one]
    return answer, happenings


def words(happenings: list[Happening], kind: type = Text) -> str:
    return "".join(h.text for h in happenings if isinstance(h, kind))  # type: ignore[attr-defined]


Wire = Callable[[list[Part], bytes], bytes]
BOTH = pytest.mark.parametrize(
    ("dialect", "wire"), [(Chat, chat_bytes), (Responses, responses_bytes)]
)


@BOTH
@given(parts=PARTS, end=ENDINGS, places=st.lists(st.integers(0, 2000), max_size=9))
def test_any_cut_of_the_bytes_gives_the_same_answer(
    dialect: type[Chat], wire: Wire, parts: list[Part], end: bytes, places: list[int]
) -> None:
    data = wire(parts, end)
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]

    answer, happenings = read(dialect(), [data[a:b] for a, b in pairwise(edges)])

    said = [part for part in parts if isinstance(part, tuple)]
    assert answer.failed is None
    assert words(happenings) == "".join(text for thought, text in said if not thought)
    assert words(happenings, Thinking) == "".join(text for thought, text in said if thought)
    assert isinstance(happenings[-1], Finished)
    assert happenings[-1].outcome is Outcome.COMPLETED


@BOTH
@pytest.mark.parametrize("how", ["close", "cut"])
@given(parts=PARTS, end=ENDINGS, at=st.integers(0, 3000))
def test_an_answer_cut_anywhere_is_a_prefix_and_no_success(
    dialect: type[Chat], wire: Wire, how: str, parts: list[Part], end: bytes, at: int
) -> None:
    data = wire(parts, end)
    at = min(at, len(data))
    whole = words(read(dialect(), [data])[1])

    answer, happenings = read(dialect(), [data[:at]], how)

    assert whole.startswith(words(happenings))
    finished = [h for h in happenings if isinstance(h, Finished)]
    assert (answer.failed is None) == bool(finished)
    if finished:
        assert words(happenings) == whole
        assert happenings[-1] is finished[0]


#: What providers put into chunks, fitting together or not.
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "content": st.one_of(
            st.none(), st.just(""), WORD, st.just([{"type": "text", "text": "p"}])
        ),
        "reasoning_content": st.one_of(st.none(), st.just(""), WORD),
        "reasoning": WORD,
        "reasoning_details": st.sampled_from([None, [], [{"text": "d"}]]),
        "refusal": st.one_of(st.none(), WORD),
        "tool_calls": st.sampled_from([None, [], [{"index": 0, "id": "t", "function": {}}]]),
        "role": st.just("assistant"),
    },
)
CHOICE = st.fixed_dictionaries(
    {"delta": DELTA},
    optional={"finish_reason": st.sampled_from([None, "", "null", "stop", "length"])},
)
DOCUMENT = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=2)},
    optional={
        "id": st.just("c"),
        "usage": st.sampled_from([None, {"prompt_tokens": 1, "completion_tokens": 2}]),
        "error": st.sampled_from([None, {"message": "m"}]),
    },
)
HALVES = st.sampled_from(
    [
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\ude00"}}]}',
    ]
)
CUT = st.sampled_from([b'{"choices":[{"delta":{"cont', b'ent":"z"}}]}', b"[DONE]", b"", b": x"])
ANY = st.lists(st.one_of(DOCUMENT.map(lambda d: json.dumps(d).encode()), HALVES, CUT), max_size=8)


#: And into the events of a response.
EVENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "response.output_text.delta",
                "response.output_text.delta",
                "response.reasoning_text.delta",
                "response.reasoning_summary_text.delta",
                "response.refusal.delta",
                "response.output_text.done",
                "response.in_progress",
                "response.output_item.added",
                "error",
                "",
            ]
        )
    },
    optional={
        "delta": st.one_of(st.just(""), WORD, st.just(7)),
        "text": WORD,
        "item_id": st.sampled_from(["a", "b"]),
        "sequence_number": st.integers(0, 9),
        "response": st.fixed_dictionaries({"id": st.just("r"), "background": st.booleans()}),
    },
)
TOLD = st.lists(
    st.one_of(EVENT.map(lambda d: json.dumps(d).encode()), CUT),
    max_size=8,
)


@pytest.mark.parametrize(
    ("dialect", "documents"), [(Chat, ANY), (Responses, TOLD)], ids=["chat", "responses"]
)
@given(data=st.data())
def test_the_usual_way_brings_what_the_whole_way_would(
    dialect: type[Chat], documents: st.SearchStrategy[list[bytes]], data: st.DataObject
) -> None:
    came = data.draw(documents)
    answer, happenings = read_as_it_comes(dialect(), came)
    whole = Answer(dialect())
    expected = [h for each in came for h in whole.feed(b"data: " + each + b"\n\n")]

    assert happenings == expected
    assert (answer.over, str(answer.failed)) == (whole.over, str(whole.failed))
    if not answer.over:
        assert answer.close() == whole.close()
        assert str(answer.failed) == str(whole.failed)
    assert answer.dialect.notes == whole.dialect.notes
    counts = (answer.dialect.visible, answer.dialect.reasoning)
    assert counts == (whole.dialect.visible, whole.dialect.reasoning)


def test_nothing_is_read_after_the_end() -> None:
    data = chat_bytes([(False, "a")], b"\n")
    answer, happenings = read(Chat(), [data, data])

    assert words(happenings) == "a"
    assert answer.over


def test_an_event_counts_as_progress_and_a_comment_does_not() -> None:
    answer = Answer(Chat())
    answer.feed(b": ping\n\n")
    assert answer.events == 0
    answer.feed(b'data: {"type":"keepalive"}\n\n')
    assert answer.events == 1
