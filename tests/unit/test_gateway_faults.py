"""What is wrong with a query or a body is told with what would be right."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tasks.gateway.faults import said_of, unreadable
from tasks.gateway.problems import CODES, Problem
from tasks.gateway.shapes import Generate, Listing, Refactor


def told(kind: Any, given: dict[str, object]) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, kind, strict=False)
    return said_of(caught.value, kind)


@pytest.mark.parametrize(
    ("kind", "given", "ends"),
    [
        (Generate | Refactor, {"kind": "x"}, "expected one of generate, refactor"),
        (
            Generate | Refactor,
            {"kind": "generate", "prompt": "p", "priority": "x"},
            "expected one of bulk, normal, urgent",
        ),
        (
            Generate | Refactor,
            {"kind": "generate", "prompt": "p", "on_interrupt": "x"},
            "expected one of auto, continue, fail, restart",
        ),
        (Listing, {"state": "x"}, "expected one of ended, running, waiting"),
        (Generate | Refactor, {"kind": "generate", "prompt": " "}, "not blank - at `$.prompt`"),
        (Listing, {"limit": 0}, "Expected `int` >= 1 - at `$.limit`"),
    ],
)
def test_it_names_what_could_be_there(kind: Any, given: dict[str, object], ends: str) -> None:
    assert told(kind, given).endswith(ends)


@pytest.mark.parametrize("code", CODES)
def test_a_client_of_openai_finds_the_words_where_it_looks(code: str) -> None:
    ours = msgspec.json.decode(bytes(Problem(code, "why").response("/jobs").body))
    theirs = msgspec.json.decode(bytes(Problem(code, "why").response("/v1/responses").body))

    assert "error" not in ours
    assert {name: theirs[name] for name in ours} == ours
    assert theirs["error"]["message"] == f"{ours['title']}: why"
    assert theirs["error"]["code"] == code


@pytest.mark.parametrize("body", [b'{"prompt": "a', b'{"prompt": "a\\ud800b"}'])
def test_half_a_character_is_no_short_body(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body)
    assert unreadable(caught.value) == "Input data was truncated, or has half a surrogate pair"
