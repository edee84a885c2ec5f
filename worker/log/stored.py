"""The entries of a log as they are stored: id, document and check, nothing interpreted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any, NamedTuple

from worker.log import entries
from worker.log.cursor import START, Cursor
from worker.log.view import spans_of

#: Entries of one read.
_PAGE = 1000


class Stored(NamedTuple):
    """`check` is None when the entry has none."""

    at: Cursor
    payload: bytes
    check: int | None


def stored_in(reply: Any) -> list[Stored]:
    """The entries in a reply of XRANGE."""
    return [_stored(at, raw) for at, raw in reply]


def _stored(at: bytes, raw: dict[bytes, bytes]) -> Stored:
    check = raw.get(entries.CHECK)
    return Stored(
        at=Cursor.parse(at),
        payload=raw.get(entries.FIELD, b""),
        check=int(check) if check is not None and check.isdigit() else None,
    )


def reading(log: str, upto: Cursor | None = None) -> Generator[tuple[Any, ...], Any, list[Stored]]:
    """Commands in, replies back, all entries up to `upto` at the end."""
    found: list[Stored] = []
    after = START
    while True:
        page = stored_in(
            (yield ("XRANGE", log, f"({after}", str(upto) if upto else "+", "COUNT", _PAGE))
        )
        found += page
        if len(page) < _PAGE:
            return found
        after = page[-1].at


def read_stored(execute: Callable[..., Any], log: str) -> list[Stored]:
    """All entries, over what runs one command."""
    steps, reply = reading(log), None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as done:
            return list(done.value)
        reply = execute(*step)


async def aread_stored(
    execute: Callable[..., Awaitable[Any]], log: str, upto: Cursor
) -> list[Stored]:
    """The entries up to `upto`, over what runs one command and reconnects by itself."""
    steps, reply = reading(log, upto), None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as done:
            return list(done.value)
        reply = await execute(*step)


def clean_text(stored: Iterable[Stored]) -> str:
    """The text of the one answer that these entries hold."""
    decoded = [(each.at, entries.decode(each.payload)) for each in stored]
    firsts = {at.attempt: entry for at, entry in decoded if isinstance(entry, entries.Attempt)}
    spans = spans_of(firsts, max(firsts, default=0))
    return "".join(
        entry.text
        for at, entry in decoded
        if isinstance(entry, entries.Text) and any(low <= at <= high for low, high in spans)
    )
