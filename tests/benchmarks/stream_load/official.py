"""What one would write without the product: the official SDK, async, one XADD for each chunk.

python -m tests.benchmarks.stream_load.official REDIS_SOCKET PROVIDER_URL STREAMS
"""

from __future__ import annotations

import asyncio
import sys

from openai import AsyncOpenAI
from redis.asyncio import Redis

from tests.benchmarks.stream_load.contender import log_of


async def stream(client: AsyncOpenAI, store: Redis, number: int) -> None:
    key = log_of("sdk", number)
    answer = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "?"}], stream=True
    )
    async for chunk in answer:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            await store.xadd(key, {"e": text})


async def main(redis_path: str, provider: str, streams: int) -> None:
    store = Redis(unix_socket_path=redis_path)
    async with AsyncOpenAI(base_url=provider, api_key="k", max_retries=0) as client:
        running = [asyncio.create_task(stream(client, store, n)) for n in range(streams)]
        print("ready", flush=True)
        await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
