"""Who is measured. Each is given the reads of a body, and picks the visible text out of them.

`start` prepares and is not timed; what it returns is. That runs over the whole body, or up to the
first visible text, and tells how many documents it handed over and the text it picked. The SDK is
used through its public interface, on a response that is already in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.harness.benchmark import installed
from worker.upstream.answer import Answer
from worker.upstream.chat import Chat
from worker.upstream.happenings import Text
from worker.upstream.sse import Decoder

Picked = tuple[int, str]
#: `True`: only up to the first visible text.
Run = Callable[[bool], Picked]

_SSE = {"content-type": "text/event-stream"}


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    start: Callable[[list[bytes]], Run]
    needs: str = ""

    @property
    def there(self) -> bool:
        return not self.needs or installed(self.needs)


def longstream(reads: list[bytes]) -> Run:
    dialect = Chat()
    answer = Answer(dialect)

    def run(first: bool) -> Picked:
        said: list[str] = []
        for read in reads:
            said += [happening.text for happening in answer.feed(read) if type(happening) is Text]
            if first and said:
                break
        # Every document of these bodies is a reasoning or a visible delta, but for the finish.
        return dialect.reasoning + dialect.visible + (dialect.grace_s is not None), "".join(said)

    return run


def sdk(reads: list[bytes]) -> Run:
    import httpx2
    import openai

    def answer(_: Any) -> Any:
        return httpx2.Response(200, headers=_SSE, content=iter(reads))

    transport = httpx2.MockTransport(answer)
    client = openai.OpenAI(
        api_key="sk-measured",
        base_url="http://127.0.0.1/v1",
        http_client=httpx2.Client(transport=transport),
    )
    messages: Any = [{"role": "user", "content": "Go on."}]
    stream = client.chat.completions.create(model="m", messages=messages, stream=True)

    def run(first: bool) -> Picked:
        said: list[str] = []
        chunks = 0
        for chunk in stream:
            chunks += 1
            if content := chunk.choices[0].delta.content:
                said.append(content)
                if first:
                    break
        return chunks, "".join(said)

    return run


def sdk_decoder(reads: list[bytes]) -> Run:
    from openai._streaming import SSEDecoder

    events = SSEDecoder().iter_bytes(iter(reads))
    return lambda first: _picked((event.data for event in events), first)


def httpx_sse(reads: list[bytes]) -> Run:
    from httpx_sse import EventSource

    events = EventSource(httpx.Response(200, headers=_SSE, content=iter(reads))).iter_sse()
    return lambda first: _picked((event.data for event in events), first)


def naive(reads: list[bytes]) -> Run:
    lines = httpx.Response(200, headers=_SSE, content=iter(reads)).iter_lines()
    return lambda first: _picked((line[6:] for line in lines if line.startswith("data: ")), first)


def _picked(payloads: Iterable[str], first: bool) -> Picked:
    said: list[str] = []
    documents = 0
    for payload in payloads:
        if payload == "[DONE]":
            break
        documents += 1
        if content := json.loads(payload)["choices"][0]["delta"].get("content"):
            said.append(content)
            if first:
                break
    return documents, "".join(said)


def framed(reads: list[bytes]) -> Run:
    decoder = Decoder()
    return lambda _: (sum(len(decoder.feed(read)) for read in reads) - 1, "")


def framed_by_sdk(reads: list[bytes]) -> Run:
    from openai._streaming import SSEDecoder

    events = SSEDecoder().iter_bytes(iter(reads))
    return lambda _: (sum(1 for _ in events) - 1, "")


CLIENT, SDK, DECODER = "longstream", "openai SDK as shipped", "openai decoder"

DECODE = (
    Contender(CLIENT, longstream),
    Contender(SDK, sdk, "openai"),
    Contender(f"{DECODER} + json", sdk_decoder, "openai"),
    Contender("httpx-sse + json", httpx_sse, "httpx_sse"),
    Contender("naive lines + json", naive),
)
FRAMING = (
    Contender(CLIENT, framed),
    Contender(DECODER, framed_by_sdk, "openai"),
)
