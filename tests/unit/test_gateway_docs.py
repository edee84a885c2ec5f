"""What the documentation of the HTTP API says is what the gateway does."""

from __future__ import annotations

import re
from pathlib import Path

from tasks.gateway.frames import HEARTBEAT, RETRY
from tasks.gateway.problems import CODES
from tasks.gateway.routes import OPERATIONS
from tasks.gateway.streams import HEARTBEAT_S, STALL_S
from worker.log import view

DOCS = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")


def test_every_problem_is_documented_as_it_is() -> None:
    rows = [f"| `{code}` | {status} | {title} |" for code, (status, title) in CODES.items()]
    assert re.findall(r"^\| `\w+` \| \d+ \| .*$", DOCS, re.MULTILINE) == rows


def test_every_operation_is_documented() -> None:
    for operation in OPERATIONS:
        if operation.described:
            assert operation.path in DOCS, operation.path


def test_every_code_an_operation_may_answer_is_one_there_is() -> None:
    for operation in OPERATIONS:
        assert not set(operation.codes) - CODES.keys()


def test_every_event_is_documented() -> None:
    kinds = {str(each.__struct_config__.tag) for each in view.Followed.__args__}  # type: ignore[attr-defined]
    for name in kinds | {"heartbeat", "problem", "done"}:
        assert f"`{name}`" in DOCS


def test_a_heartbeat_is_a_comment_and_an_event_and_moves_no_cursor() -> None:
    comment, _, event = HEARTBEAT.decode().partition("\n\n")
    assert comment.startswith(":")
    assert "event: heartbeat\ndata: {}" in event
    assert "id" not in HEARTBEAT.decode()
    assert RETRY.startswith(b"retry: ")
    assert HEARTBEAT_S <= 15
    assert f"{HEARTBEAT_S:.0f} s after" in DOCS
    assert f"for {STALL_S:.0f} s" in DOCS
