"""Readers of one process without HTTP: through the hub, or each with a connection of its own.

    python -m tests.benchmarks.reader_load.alone URL hub|own READERS JOBS

Talks as `clients` does.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.benchmarks.reader_load.clients import Counters
from tests.benchmarks.reader_load.writing import name_of
from worker.log.hub import Hub
from worker.log.reader import atail
from worker.log.view import Attempt, End, Followed, Text
from worker.store.connections import connect_async


async def items_of(hub: Hub[Followed] | None, url: str, job: str) -> AsyncIterator[Followed]:
    if hub is None:
        client = connect_async(url)
        async for item in atail(client, job):
            yield item
        await client.aclose()
        return
    async with aclosing(hub.reader(job).batches()) as batches:
        async for batch in batches:
            for _, item in batch:
                yield item


async def read(
    items: AsyncIterator[Followed], counters: Counters, begun: asyncio.Future[None]
) -> bool:
    digest, length = hashlib.sha256(), 0
    async for item in items:
        if isinstance(item, Text):
            digest.update(item.text.encode())
            length += len(item.text)
            if counters.counting:
                counters.delivered += 1
                counters.ages.append(time.monotonic() - int(item.text) / 1e9)
        elif isinstance(item, Attempt):
            begun.set_result(None)
        elif isinstance(item, End):
            return (item.length, item.digest) == (length, digest.hexdigest())
    return False


async def run(url: str, how: str, readers: int, jobs: int) -> None:
    counters, loop = Counters(), asyncio.get_running_loop()
    async with Hub[Followed](url, lambda item: item) as shared:
        hub = shared if how == "hub" else None
        begun = [loop.create_future() for _ in range(readers)]
        tasks = []
        for number in range(readers):
            items = items_of(hub, url, name_of(number % jobs))
            tasks.append(asyncio.create_task(read(items, counters, begun[number])))
            if number % 50 == 0:
                await asyncio.sleep(0.01)
        await asyncio.gather(*begun)
        print("connected", flush=True)
        commands: asyncio.Queue[str] = asyncio.Queue()
        loop.add_reader(sys.stdin, lambda: commands.put_nowait(sys.stdin.readline().strip()))
        before = 0
        while (command := await commands.get()) != "finish":
            if command == "mark":
                counters.mark()
                before = shared.reads.reads
            else:
                told = counters.told() | {"reads": shared.reads.reads - before}
                print(json.dumps(told), flush=True)
        exact = await asyncio.wait_for(asyncio.gather(*tasks), 90)
        print(json.dumps({"exact": sum(exact), "connections": 0}), flush=True)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
