"""The Responses API: addressed parts, snapshots that only add, and a terminal that must come."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from worker.outcomes import Outcome
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import (
    Finished,
    Happening,
    Refusal,
    Resumable,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from worker.upstream.responses import Responses
from worker.upstream.sse import Event

COMPLETED = Finished(Outcome.COMPLETED, "completed")


def event(kind: str, **fields: object) -> Event:
    return Event(json.dumps({"type": f"response.{kind}", **fields}).encode(), f"response.{kind}")


def delta(text: str, item: str = "m", content: int = 0) -> Event:
    return event("output_text.delta", item_id=item, content_index=content, delta=text)


def item(*texts: str, name: str = "m") -> dict[str, object]:
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {"id": name, "type": "message", "content": parts}


def completed(*items: dict[str, object], **response: object) -> Event:
    return event("completed", response={"status": "completed", "output": list(items), **response})


def run(*events: Event) -> list[Happening]:
    responses = Responses()
    happenings = [h for e in events for h in responses.feed([e])]
    assert responses.failed is None, responses.failed
    return happenings + responses.finish()


def text_of(happenings: list[Happening]) -> str:
    return "".join(h.text for h in happenings if isinstance(h, Text))


def test_deltas_become_text_and_the_terminal_the_end() -> None:
    usage = {"input_tokens": 4, "input_tokens_details": {"cached_tokens": 1}, "output_tokens": 9,
             "output_tokens_details": {"reasoning_tokens": 5}}  # fmt: skip

    assert run(event("created", response={"id": "r"}), delta("a"), delta("b"),
               completed(item("ab"), usage=usage)) == [
        Text("a"), Text("b"), Usage(4, 1, 9, 5), COMPLETED,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text"])
def test_reasoning_is_thinking_and_its_snapshot_repeats_nothing(kind: str) -> None:
    happenings = run(
        event(f"{kind}.delta", item_id="t", summary_index=0, delta="h"),
        event(f"{kind}.delta", item_id="t", summary_index=0, delta="m"),
        event(f"{kind}.done", item_id="t", summary_index=0, text="hm!"),
        delta("a"),
        completed(),
    )

    assert happenings == [
        Thinking("h", 1),
        Thinking("m", 1),
        Thinking("!", 1),
        Text("a"),
        COMPLETED,
    ]


def test_thinking_of_one_read_is_one_piece() -> None:
    thoughts = [event("reasoning_text.delta", item_id="t", delta=word) for word in "abc"]

    assert Responses().feed([*thoughts, delta("x")]) == [Thinking("abc", 3), Text("x")]


@pytest.mark.parametrize(
    "snapshots",
    [
        [event("output_text.done", item_id="m", text="abc")],
        [completed(item("abc"))],
        [event("output_text.done", item_id="m", text="abc"), completed(item("abc"))],
        [event("output_text.done", item_id="m", text="ab"), completed(item("abc"))],
        [event("output_text.done", item_id="m", text=""), completed(item("abc"))],
        [completed(item("abc", name="another id"))],
    ],
)
def test_what_the_deltas_missed_is_said_exactly_once(snapshots: list[Event]) -> None:
    events = [delta("a"), *snapshots]
    if not any(b"response.completed" in e.data for e in events):
        events.append(completed(item("abc")))

    assert text_of(run(*events)) == "abc"


def test_a_snapshot_that_contradicts_the_deltas_takes_nothing_back() -> None:
    responses = Responses()
    happenings = responses.feed([delta("ab"), completed(item("xyz"))])

    assert text_of(happenings + responses.finish()) == "ab"
    assert responses.notes["snapshot_differs"] == 1


def test_interleaved_items_keep_their_own_snapshots() -> None:
    happenings = run(
        delta("a", "1"),
        delta("x", "2"),
        delta("b", "1"),
        event("output_text.done", item_id="1", text="ab"),
        event("output_text.done", item_id="2", text="xy"),
        completed(item("ab", name="1"), item("xy", name="2")),
    )

    assert text_of(happenings) == "axby"


def test_a_call_is_told_once_and_its_arguments_whole() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": ""}
    happenings = run(
        event("output_item.added", item=call, output_index=1),
        event("function_call_arguments.delta", item_id="fc", delta='{"a"'),
        event("function_call_arguments.done", item_id="fc", arguments='{"a":1}'),
        event("output_item.done", item={**call, "arguments": '{"a":1}'}, output_index=1),
        completed(),
    )

    assert happenings == [
        ToolCall(0, "c1", "f", ""),
        ToolCall(0, None, None, '{"a"'),
        ToolCall(0, None, None, ":1}"),
        COMPLETED,
    ]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("max_output_tokens", Outcome.INCOMPLETE), ("content_filter", Outcome.FILTERED)],
)
def test_an_incomplete_response_says_why(reason: str, outcome: Outcome) -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}}

    assert run(delta("a"), event("incomplete", response=response))[-1] == Finished(outcome, reason)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", "provider_error", True),
        ("rate_limit_exceeded", "rate_limited", True),
        ("invalid_prompt", "filtered", False),
        ("something_new", "provider_error", True),
    ],
)
def test_a_failed_response_is_classified(code: str, kind: str, retryable: bool) -> None:
    error = {"code": code, "message": "no"}
    responses = Responses()
    responses.feed([delta("a"), event("failed", response={"status": "failed", "error": error})])

    assert responses.failed is not None
    assert (responses.failed.kind, responses.failed.retryable) == (kind, retryable)


def test_a_cancelled_response_is_no_end() -> None:
    responses = Responses()
    responses.feed([event("cancelled", response={"status": "cancelled"})])

    assert responses.failed is not None
    assert responses.failed.kind == "cancelled"


def test_a_sentinel_is_not_a_terminal() -> None:
    responses = Responses()
    responses.feed([delta("a"), Event(b"[DONE]")])

    with pytest.raises(UpstreamFailure):
        responses.finish()


def test_keep_alives_and_unknown_events_are_no_failure() -> None:
    happenings = run(
        Event(b'{"type":"keepalive","sequence_number":3}'),
        event("something.new", data=1),
        Event(b'{"type":"x.y","message":"hello"}'),
        delta("a"),
        completed(),
    )

    assert happenings == [Text("a"), COMPLETED]


def test_odd_types_of_fields_do_not_lose_an_event() -> None:
    odd = Event(
        b'{"type":"response.output_text.delta","item_id":7,"delta":"a","content_index":null}'
    )

    assert run(odd, completed()) == [Text("a"), COMPLETED]


def test_a_foreground_response_offers_no_resumption() -> None:
    happenings = run(
        event("created", response={"id": "r", "background": False}, sequence_number=0),
        event("output_text.delta", item_id="m", delta="a", sequence_number=1),
        completed(),
    )

    assert not [h for h in happenings if isinstance(h, Resumable)]


def test_a_background_response_tells_its_cursor_after_what_it_covers() -> None:
    responses = Responses()
    created = event("created", response={"id": "r", "background": True}, sequence_number=0)
    text = event("output_text.delta", item_id="m", delta="a", sequence_number=4)

    assert responses.feed([created, text]) == [Text("a"), Resumable("r", 4)]
    assert responses.feed([Event(b'{"type":"keepalive","sequence_number":5}')]) == [
        Resumable("r", 5)
    ]


def test_a_refusal_by_snapshot_alone_is_heard() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}

    assert run(completed(refusal)) == [Refusal("no"), Finished(Outcome.REFUSED, "completed")]


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.lists(TEXT, min_size=1, max_size=3), st.data())
def test_whatever_deltas_are_lost_at_the_end_the_text_is_whole(
    parts: list[str], data: st.DataObject
) -> None:
    """Deltas of all parts in order, cut off anywhere; the final snapshot has everything."""
    deltas = [(n, c) for n, part in enumerate(parts) for c in part]
    kept = deltas[: data.draw(st.integers(0, len(deltas)))]
    events = [delta(c, content=n) for n, c in kept]

    assert text_of(run(*events, completed(item(*parts)))) == "".join(parts)


@given(TEXT, st.lists(st.integers(0, 20), max_size=5))
def test_done_snapshots_after_any_deltas_repeat_nothing(text: str, places: list[int]) -> None:
    edges = [0, *sorted(min(place, len(text)) for place in places)]
    events = [delta(text[a:b]) for a, b in pairwise(edges)]

    happenings = run(*events, event("output_text.done", item_id="m", text=text), completed())
    assert text_of(happenings) == text


def test_the_last_text_is_stored_with_its_point_and_the_end_is_told_again() -> None:
    """Who dies between the two is followed by who must not hear that text once more."""
    responses = Responses()
    created = event("created", response={"id": "r", "background": True}, sequence_number=0)
    text = event("output_text.delta", delta="a", item_id="m", sequence_number=1)
    done = event("completed", response={"id": "r", "status": "completed"}, sequence_number=2)
    responses.feed([created])
    happenings = responses.feed([text, done])
    (point,) = [each for each in happenings if isinstance(each, Resumable)]
    assert point == Resumable("r", 1)

    again = Responses(resumed=point, said="a")
    assert text_of(again.feed([text, done])) == ""
    assert isinstance(again.finish()[-1], Finished)


def test_what_the_end_of_the_body_cut_off_is_taken_only_when_it_is_whole() -> None:
    responses = Responses()
    responses.feed([delta("a")])
    last = completed(item("a"))

    assert responses.tail(Event(last.data[:-5])) == []
    assert responses.notes["cut_tail"] == 1
    with pytest.raises(UpstreamFailure):
        responses.finish()
    responses.tail(last)
    assert responses.notes["unterminated_tail"] == 1
    assert responses.finish()[-1] == COMPLETED
