"""Jobs, newest first, a page at a time, by what their records say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import redis

from worker.job.records import Record, parse_record
from worker.log.cursor import CursorError
from worker.store.keys import JOBS, job_keys

#: Records of one round trip, and as many as one page may look at for what is wanted.
_CHUNK, _LOOKED_AT = 200, 5_000

#: Jobs that the server goes through in one step for those that begin in a certain way.
_SCANNED = 1_000
_GLOB = re.compile(r"[*?\[\]\\]")

#: What a record tells, but for the result, which may be large.
_FIELDS = [name for name in Record.__struct_fields__ if name not in ("id", "result")]


class Position(NamedTuple):
    """Behind which job a page begins: when it was submitted, and its id."""

    at_ms: int
    job_id: str

    def __str__(self) -> str:
        return f"{self.at_ms}-{self.job_id}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises CursorError."""
        at, dash, job_id = text.partition("-")
        if not (dash and job_id and at.isascii() and at.isdigit() and len(at) <= 15):
            raise CursorError("not the `next` of a page of jobs")
        return cls(int(at), job_id)


class Page(NamedTuple):
    """`following`: where the next one begins; None at the end."""

    records: list[Record]
    following: Position | None


def page(
    client: redis.Redis,
    wanted: Callable[[Record], bool],
    count: int,
    behind: Position | None = None,
) -> Page:
    """At most `count` records that are wanted. A page may be short, or empty, although another
    follows: when so many were looked at in vain that others should have their turn."""
    found: list[Record] = []
    looked_at = 0
    while looked_at < _LOOKED_AT:
        chunk = _behind(client, behind)
        for position, record in _records(client, chunk):
            behind = position
            if record is not None and wanted(record):
                found.append(record)
                if len(found) == count:
                    return Page(found, behind)
        looked_at += len(chunk)
        if len(chunk) < _CHUNK:
            return Page(found, None)
    return Page(found, behind)


def starting_with(client: redis.Redis, prefix: str) -> Iterator[str]:
    """The ids that begin like this, in no order, some of them twice. The server sends these alone,
    and is never long at it."""
    pattern = _GLOB.sub(r"\\\g<0>", prefix) + "*"
    for name, _ in client.zscan_iter(JOBS, match=pattern, count=_SCANNED):
        yield name.decode()


def _behind(client: redis.Redis, behind: Position | None) -> list[Position]:
    """The next positions; of the jobs of one millisecond those with smaller ids come later."""
    if behind is None:
        found: Any = client.zrevrange(JOBS, 0, _CHUNK - 1, withscores=True)
        return [Position(int(at), name.decode()) for name, at in found]
    positions: list[Position] = []
    start = 0
    while len(positions) < _CHUNK:
        found = client.zrevrangebyscore(
            JOBS, behind.at_ms, "-inf", start=start, num=_CHUNK, withscores=True
        )
        read = [Position(int(at), name.decode()) for name, at in found]
        positions += [position for position in read if position < behind]
        if len(read) < _CHUNK:
            return positions
        start += _CHUNK
    return positions


def _records(
    client: redis.Redis, positions: list[Position]
) -> list[tuple[Position, Record | None]]:
    pipeline = client.pipeline(transaction=False)
    for position in positions:
        pipeline.hmget(job_keys(position.job_id).record, _FIELDS)
    found = []
    for position, values in zip(positions, pipeline.execute(), strict=True):
        pairs = zip(_FIELDS, values, strict=True)
        raw = {name.encode(): value for name, value in pairs if value is not None}
        found.append((position, parse_record(position.job_id, raw)))
    return found
