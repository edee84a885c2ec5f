"""Connections to the store, as their users may rely on them."""

from __future__ import annotations

import asyncio

from tests.harness.valkey import Valkey
from worker.store.connections import connect_async


async def test_a_command_can_be_cancelled_at_any_moment(valkey: Valkey) -> None:
    """Whatever the turn of the loop: connecting, sending, or waiting for the reply."""
    for turns in range(40):
        async with connect_async(valkey.url) as client:
            waiting = asyncio.ensure_future(client.blpop(["nothing comes"], timeout=5))
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting], timeout=2)
            assert waiting.cancelled(), f"after {turns} turns"
