"""Watches the logs of some streams, and tells how old every visible delta was when it was there.

`log`: one blocking XREAD over all of them, as close to the log as one can be from outside.
`reader`: the product's own reader, one for each stream. Both count what was wrong on the way: a
delta that came twice, out of order, or not at all by the word of the answer's own usage.

    python -m tests.benchmarks.stream_load.observer log|reader CONTENDER REDIS_SOCKET STREAM...
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
import time
from typing import Any

import redis
from redis.asyncio import Redis

from tests.benchmarks.stream_load.contender import OURS, job_of, log_of
from tests.benchmarks.stream_load.pace import STAMP_CHARS
from worker.log import entries
from worker.log.cursor import START, Cursor
from worker.log.reader import atail
from worker.log.view import End, Text
from worker.store.connections import connect_async

_STAMP = re.compile(rb"(\d{13}) ")


class Seen:
    """What was found since the last report."""

    def __init__(self) -> None:
        self.ages_us: list[int] = []
        self.wrong = self.ended = 0
        self._last: dict[int, int] = {}

    def text(self, stream: int, text: bytes) -> None:
        now = time.monotonic_ns() // 1000
        for found in _STAMP.findall(text):
            sent = int(found)
            self.wrong += sent < self._last.get(stream, 0)
            self._last[stream] = sent
            self.ages_us.append(now - sent)

    def end(self, chars: int, deltas: int) -> None:
        self.ended += 1
        self.wrong += chars != STAMP_CHARS * deltas

    def report(self) -> str:
        ages, self.ages_us = sorted(self.ages_us), []
        told: dict[str, Any] = {"deltas": len(ages), "wrong": self.wrong, "ended": self.ended}
        if ages:
            last = len(ages) - 1
            shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
            told |= {f"{name}_ms": ages[int(last * s)] / 1000 for name, s in shares.items()}
        return json.dumps(told)


def place_of(store: redis.Redis, contender: str, stream: int) -> tuple[int, str]:
    """The job a stream is at by now, and where its log ends: behind a seal the next one begins."""
    generation = 0
    while contender == OURS and store.exists(log_of(OURS, stream, generation + 1)):
        generation += 1
    last: Any = store.xrevrange(log_of(contender, stream, generation), count=1)
    if not last:
        return generation, "0"
    if contender == OURS and isinstance(entries.decode(last[0][1][b"e"]), entries.End):
        return generation + 1, "0"
    return generation, last[0][0].decode()


def watch_logs(contender: str, path: str, streams: list[int], seen: Seen) -> None:
    """All logs in one blocking read after another."""
    store = redis.Redis(unix_socket_path=path, protocol=2)
    at = {}
    for stream in streams:
        generation, last = place_of(store, contender, stream)
        at[log_of(contender, stream, generation)] = stream, generation, last
    while True:
        reply: Any = store.xread({key: place[2] for key, place in at.items()}, block=1000)
        for name, found in reply:
            key = name.decode()
            stream, generation, _ = at[key]
            at[key] = stream, generation, found[-1][0].decode()
            for _, fields in found:
                seen.text(stream, fields[b"e"])
            end = entries.decode(found[-1][1][b"e"]) if contender == OURS else None
            if isinstance(end, entries.End):
                assert end.usage is not None
                seen.end(end.offset, end.usage.output)
                del at[key]
                at[log_of(contender, stream, generation + 1)] = stream, generation + 1, "0"


async def read(store: Redis, stream: int, place: tuple[int, str], seen: Seen) -> None:
    """One stream by the product's reader, from where its log ends now."""
    generation, last = place
    cursor = START if last == "0" else Cursor.parse(last)
    while True:
        try:
            async for item in atail(store, job_of(stream, generation), cursor):
                if isinstance(item, Text):
                    seen.text(stream, item.text.encode())
                elif isinstance(item, End):
                    seen.ended += 1
        except LookupError:
            await asyncio.sleep(0.1)
            continue
        generation, cursor = generation + 1, START


def watch_readers(path: str, streams: list[int], seen: Seen) -> None:
    with redis.Redis(unix_socket_path=path, protocol=2) as now:
        places = {stream: place_of(now, OURS, stream) for stream in streams}

    async def main() -> None:
        store = connect_async(f"unix://{path}")
        await asyncio.gather(*(read(store, stream, at, seen) for stream, at in places.items()))

    asyncio.run(main())


def main(mode: str, contender: str, path: str, streams: list[int]) -> None:
    seen = Seen()
    if mode == "log":
        args: tuple[Any, ...] = (contender, path, streams, seen)
        threading.Thread(target=watch_logs, args=args, daemon=True).start()
    else:
        args = (path, streams, seen)
        threading.Thread(target=watch_readers, args=args, daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(seen.report(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], list(map(int, sys.argv[4:])))
