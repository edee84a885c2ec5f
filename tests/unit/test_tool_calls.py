"""Fragments of calls stay with their call, whatever a provider leaves out."""

from __future__ import annotations

import pytest

from worker.upstream.chat_shapes import Call, Function
from worker.upstream.tool_calls import ToolCalls


def joined(calls: list[Call]) -> list[tuple[str | None, str | None, str]]:
    """(id, name, arguments) of each call, in order."""
    tool_calls, found = ToolCalls(), {}
    for call in calls:
        for part in tool_calls.fragments([call]):
            identity, name, arguments = found.get(part.index, (None, None, ""))
            found[part.index] = (part.id or identity, part.name or name, arguments + part.arguments)
    return [found[index] for index in sorted(found)]


def calls_of(text: str) -> list[Call]:
    """`index/id/name/arguments` of each fragment; what is missing is missing."""
    fields = [fragment.split("/") for fragment in text.split()]
    return [
        Call(int(index) if index else None, known or None, Function(name or None, arguments))
        for index, known, name, arguments in fields
    ]


@pytest.mark.parametrize(
    "text",
    [
        "0/a/f/ 0///12 1/b/g/3 1///4",
        "0/a/f/ 1/b/g/ 0///1 1///34 0///2",
        "/a/f/1 ///2 /b/g/3 ///4",
        "0/a/f/1 0///2 0/b/g/3 0///4",
        "0/a/f/1 0/a/f/2 1/b/g/3 1/b/g/4",
        "0/a/f/1 0/b/g/3 /a//2 /b//4",
    ],
)
def test_two_calls_stay_two_calls(text: str) -> None:
    assert joined(calls_of(text)) == [("a", "f", "12"), ("b", "g", "34")]


def test_a_call_without_any_identity_is_one_call() -> None:
    assert joined(calls_of("//f/1 ///2")) == [(None, "f", "12")]


def test_a_new_id_without_a_name_continues_the_call_of_its_index() -> None:
    assert joined(calls_of("0/a/f/1 0/x//2")) == [("a", "f", "12")]
