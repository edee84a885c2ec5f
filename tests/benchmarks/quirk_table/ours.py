"""This client under measurement: what its happenings and failures tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from settings.model import Clocks, Key
from settings.secret import Secret
from tests.benchmarks.quirk_table.seen import Question, Reader, Seen
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import (
    Finished,
    Happening,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from worker.upstream.request import Message, Request

#: For scenarios that never end.
SHORT = Clocks(headers_s=1.0, bytes_idle_s=1.0, progress_idle_s=2.5)


@asynccontextmanager
async def reader() -> AsyncIterator[Reader]:
    """One client with the default clocks, and one with short ones."""
    async with Client(Clocks()) as usual, Client(SHORT) as hasty:

        async def read(question: Question, seen: Seen) -> None:
            await reader_of(hasty if question.short else usual)(question, seen)

        yield read


def reader_of(client: Client) -> Reader:
    """A reader that asks through `client`."""

    async def read(question: Question, seen: Seen) -> None:
        fragments: dict[int, list[str]] = {}
        seen.thinking = ""
        try:
            async for happenings in client.stream(request_of(question), key_of(question)):
                for happening in happenings:
                    _note(happening, seen, fragments)
        except UpstreamFailure as failure:
            note_failure(failure, seen)
        except Exception as error:
            seen.error, seen.ours = type(error).__name__, False
        seen.calls = [(name, "".join(parts)) for name, *parts in fragments.values()]

    return read


def request_of(question: Question) -> Request:
    message = Message("user", question.prompt)
    return Request(question.model, (message,), inline_thinking=question.inline)


def key_of(question: Question) -> Key:
    return Key(
        alias="measured",
        provider="simulator",
        base_url=question.url,
        secret=Secret(question.secret),
        account="measured",
        api=question.api,
    )


def note_failure(failure: UpstreamFailure, seen: Seen) -> None:
    seen.error, seen.explained = failure.kind, str(failure)
    seen.kind, seen.retryable, seen.delay_s = failure.kind, failure.retryable, failure.delay_s


def _note(happening: Happening, seen: Seen, fragments: dict[int, list[str]]) -> None:
    match happening:
        case Text(text):
            seen.text += text
        case Thinking(text, tokens):
            seen.thinking = f"{seen.thinking}{text}"
            seen.thinking_tokens += tokens
        case Refusal(text):
            seen.refusal += text
        case ToolCall(index, _, name, arguments):
            parts = fragments.setdefault(index, [""])
            parts[0] = name or parts[0]
            parts.append(arguments)
        case Usage(asked, _, answered, thought):
            seen.usage = (asked, answered, thought)
        case Finished(outcome, _):
            seen.finish = str(outcome)
