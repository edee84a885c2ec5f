"""The official SDK under measurement, in a loop its own types allow and its own pages show.

The loop reads to the end of the stream. It expects what the types promise: `choices` may be empty
and `content` may be None, but a chunk is a chunk and a delta a delta. An error counts as told when
it is raised, and also when a typed event hands it over. The SDK has its defaults, but for
`max_retries=0` where a quirk is about one response, and a time-out of one second where it would
wait for the default ten minutes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.benchmarks.quirk_table.seen import Question, Reader, Seen

TIMEOUT_S = 1.0


@asynccontextmanager
async def reader() -> AsyncIterator[Reader]:
    """A new client a question, since each has a key of its own."""

    async def read(question: Question, seen: Seen) -> None:
        async with client_of(question) as client:
            await ask(client, question, seen)

    yield read


def reader_of(client: Any) -> Reader:
    """A reader that asks through `client`."""

    async def read(question: Question, seen: Seen) -> None:
        await ask(client, question, seen)

    return read


def client_of(question: Question, **more: Any) -> Any:
    import openai

    if question.short:
        more["timeout"] = TIMEOUT_S
    if not question.retries:
        more["max_retries"] = 0
    return openai.AsyncOpenAI(api_key=question.secret, base_url=question.url, **more)


async def ask(client: Any, question: Question, seen: Seen) -> None:
    """Asks, and notes what the SDK hands over or raises."""
    import openai

    read = _chat if question.api == "chat" else _responses
    try:
        await read(client, question, seen)
    except openai.OpenAIError as error:
        seen.error, seen.explained = type(error).__name__, str(error)
    except TimeoutError:
        raise
    except Exception as error:
        seen.error, seen.explained, seen.ours = type(error).__name__, str(error), False


async def _chat(client: Any, question: Question, seen: Seen) -> None:
    stream = await client.chat.completions.create(
        model=question.model,
        messages=[{"role": "user", "content": question.prompt}],
        stream=True,
        stream_options={"include_usage": True},
    )
    calls: dict[int, tuple[str, str]] = {}
    async for chunk in stream:
        if chunk.usage:
            seen.usage = _numbers(chunk.usage, "prompt_tokens", "completion_tokens")
        if not chunk.choices:
            continue
        choice = chunk.choices[0]
        seen.text += choice.delta.content or ""
        seen.refusal += choice.delta.refusal or ""
        seen.finish = choice.finish_reason or seen.finish
        for call in choice.delta.tool_calls or []:
            name, arguments = calls.get(call.index, ("", ""))
            told = call.function
            calls[call.index] = (name or told.name or "", arguments + (told.arguments or ""))
        seen.calls = list(calls.values())


async def _responses(client: Any, question: Question, seen: Seen) -> None:
    stream = await client.responses.create(
        model=question.model,
        input=[{"role": "user", "content": question.prompt}],
        stream=True,
    )
    async for event in stream:
        match event.type:
            case "response.output_text.delta":
                seen.text += event.delta
            case "response.refusal.delta":
                seen.refusal += event.delta
            case "response.completed" | "response.incomplete":
                response = event.response
                why = response.incomplete_details
                seen.finish = why.reason if why else response.status
                if response.usage:
                    seen.usage = _numbers(response.usage, "input_tokens", "output_tokens")
            case "response.failed":
                seen.error, seen.explained = "response.failed", str(event.response.error)
            case "error":
                seen.error, seen.explained = "error event", str(event)


def _numbers(usage: Any, asked: str, answered: str) -> tuple[int, int, int]:
    details = getattr(usage, answered + "_details", None)
    thought = getattr(details, "reasoning_tokens", None) or 0
    return getattr(usage, asked), getattr(usage, answered), thought
