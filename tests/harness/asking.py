"""Puts a question to a scripted provider through the real client, and keeps what happened."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from unittest import mock

import pytest
from structlog.testing import capture_logs

from settings.model import Clocks, Key
from settings.profiles import PROFILES, Profile
from settings.secret import Secret
from tests.harness.wire import Received, Script, WireServer
from worker.upstream import transport
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Happening, Text, Thinking
from worker.upstream.request import Message, Request

REQUEST = Request(model="gpt-5.5-codex", messages=(Message("user", "say hello"),))
SECRET = "sk-test-0123456789"

#: A provider that speaks the Responses API; the shipped profiles all default to chat.
RESPONSES = Profile(
    name="responses", base_url=None, dialect="responses", takes=frozenset({"reasoning_effort"})
)

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def key_for(server: WireServer, provider: str = "simulator") -> Key:
    return Key(
        alias="k1",
        provider=provider,
        base_url=server.base_url,
        secret=Secret(SECRET),
        account="a",
        api="responses" if provider == "responses" else "chat",
    )


@asynccontextmanager
async def quick_client(clocks: Clocks | None = None) -> AsyncIterator[Client]:
    """A client for plain connections, without the time that loading the system's roots takes."""
    with (
        mock.patch.object(transport, "ssl_context", return_value=_NO_TLS),
        mock.patch.dict(PROFILES, responses=RESPONSES),
    ):
        async with Client(clocks or Clocks(connect_s=5, read_s=10)) as client:
            yield client


async def ask(
    client: Client,
    script: Script | Callable[[Received], Script],
    provider: str = "simulator",
    request: Request = REQUEST,
) -> list[Happening]:
    async with WireServer(script) as server:
        stream = client.stream(request, key_for(server, provider))
        return [happening async for batch in stream for happening in batch]


async def fail(
    client: Client, script: Script | Callable[[Received], Script], provider: str = "simulator"
) -> tuple[UpstreamFailure, list[Happening]]:
    """The failure the script ends in, and what was delivered before it."""
    seen: list[Happening] = []
    async with WireServer(script) as server:
        with pytest.raises(UpstreamFailure) as caught:
            await _collect(client, key_for(server, provider), seen)
    return caught.value, seen


async def noted(
    client: Client, script: Script, provider: str = "simulator"
) -> tuple[list[Happening], Counter[str]]:
    """What happened, and what the client says in its log that it tolerated."""
    with capture_logs() as logs:
        happenings = await ask(client, script, provider)
    notes: Counter[str] = Counter()
    for entry in logs:
        if entry["event"] == "upstream.tolerated":
            notes.update({name: n for name, n in entry.items() if isinstance(n, int)})
    return happenings, notes


def text_of(happenings: list[Happening]) -> str:
    return "".join(h.text for h in happenings if isinstance(h, Text))


def thought_of(happenings: list[Happening]) -> str:
    return "".join(h.text for h in happenings if isinstance(h, Thinking))


async def _collect(client: Client, key: Key, seen: list[Happening]) -> None:
    async for batch in client.stream(REQUEST, key):
        seen += batch
