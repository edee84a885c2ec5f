"""Reads the answer to a request of a batch: its text, and the calls of tools in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from settings.errors import LongstreamError
from worker.attempt.reading import Mark
from worker.upstream.happenings import ToolCall


class AnswerOfBody:
    """The result is `{"text": ...}`, with `calls` when there are any."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}

    def take(self, text: str) -> Sequence[Mark]:
        self._text.append(text)
        return ()

    def call(self, fragment: ToolCall) -> None:
        call = self._calls.setdefault(fragment.index, {"id": "", "name": "", "arguments": ""})
        call["id"] = fragment.id or call["id"]
        call["name"] = fragment.name or call["name"]
        call["arguments"] += fragment.arguments

    def close(self) -> Sequence[Mark]:
        return ()

    def finish(self) -> dict[str, Any]:
        calls = [self._calls[index] for index in sorted(self._calls)]
        for call in calls:
            _check(call)
        return {"text": "".join(self._text), **({"calls": calls} if calls else {})}


def _check(call: dict[str, str]) -> None:
    """A call whose first part went to a worker that died is not handed on as a whole one."""
    whole = bool(call["name"])
    try:
        json.loads(call["arguments"] or "{}")
    except ValueError:
        whole = False
    if not whole:
        raise LongstreamError("a tool call of the answer is not whole")
