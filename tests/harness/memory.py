"""Answers a reader's commands from a list of entries: a store without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worker.log.cursor import START, Cursor
from worker.log.follow import follow
from worker.log.stored import Stored
from worker.log.view import Cut, Followed, Text


def read(log: Sequence[Stored], start: Cursor = START, *, raw: bool = False) -> list[Followed]:
    """What a reader gets from a cursor on, up to the last entry."""
    steps, reply, items = follow("j", start, raw=raw, wait=False), None, []
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return items
        if isinstance(step, tuple):
            reply = _answer(log, step)
        else:
            items.append(step)
            reply = None


def applied(items: Sequence[Followed], had: str = "") -> str:
    """The text of a clean reader that had one before; every offset is checked."""
    for item in items:
        if isinstance(item, Cut):
            had = had[: item.offset]
        elif isinstance(item, Text):
            assert item.offset == len(had), "a gap or a repeat"
            had += item.text
    return had


def _answer(log: Sequence[Stored], command: tuple[Any, ...]) -> Any:
    match command:
        case ("HMGET", _, "state", "attempt"):
            attempts = [each.at.attempt for each in log]
            return [b"running", str(max(attempts, default=0)).encode()]
        case ("XREVRANGE", _, "+", "-", "COUNT", 1):
            return [_wire(each) for each in log[-1:]]
        case ("XRANGE", _, "-", "+", "COUNT", 1):
            return [_wire(each) for each in log[:1]]
        case ("XRANGE", _, low, high):
            first, last = Cursor.parse(low), Cursor.parse(high)
            return [_wire(each) for each in log if first <= each.at <= last]
        case ("XREAD", "COUNT", count, "STREAMS", key, after):
            behind = [each for each in log if each.at > Cursor.parse(after)]
            return [[key, [_wire(each) for each in behind[:count]]]] if behind else None
    raise AssertionError(f"a reader sent {command[0]}")


def _wire(each: Stored) -> tuple[bytes, dict[bytes, bytes]]:
    return str(each.at).encode(), {b"e": each.payload, b"c": str(each.check).encode()}
