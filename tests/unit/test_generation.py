"""What a provider tells afterwards of a stream that was cut."""

from __future__ import annotations

import pytest

from worker.upstream.chat import Chat
from worker.upstream.generation import id_in, usage_in
from worker.upstream.happenings import Usage
from worker.upstream.sse import Event


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (b'{"id": "gen-1", "choices": []}', "gen-1"),
        (b'{"choices": []}', ""),
        (b'{"id": 7}', ""),
        (b'{"id": "cut o', ""),
        (b"[DONE]", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_the_id_of_a_stream_is_that_of_its_first_document(document: bytes, found: str) -> None:
    assert id_in(document) == found


def test_a_chat_stream_tells_its_id_with_its_first_event() -> None:
    told: list[str] = []
    dialect = Chat(begun=told.append)
    dialect.feed([Event(b'{"id": "gen-1", "choices": [{"delta": {"content": "a"}}]}')])
    dialect.feed([Event(b'{"id": "gen-2", "choices": [{"delta": {"content": "b"}}]}')])

    assert told == ["gen-1"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            b"""{"data": {"native_tokens_prompt": 3, "native_tokens_completion": 5,
            "native_tokens_reasoning": 2, "native_tokens_cached": 1, "tokens_prompt": 9,
            "tokens_completion": 9}}""",
            Usage(3, 1, 5, 2),
        ),
        (b'{"data": {"tokens_prompt": 3, "tokens_completion": 5}}', Usage(3, 0, 5, 0)),
        (b'{"data": {"native_tokens_prompt": 3}}', None),
        (b'{"data": null}', None),
        (b"{", None),
    ],
)
def test_the_billed_counts_are_read_and_nothing_is_made_up(
    body: bytes, found: Usage | None
) -> None:
    assert usage_in(body) == found
