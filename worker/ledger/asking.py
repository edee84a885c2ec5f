"""Asks a provider what a stream has used that was cut before it said so, and stops what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from settings.model import Settings
from worker.log.entries import Tokens
from worker.upstream.client import Client
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Usage

#: A provider needs a moment to count a stream that has just been cut; the last one gives up.
_PAUSES_S = (0.0, 0.3, 1.0, 2.0)
#: What one question may take, in seconds.
_ANSWER_S = 5.0
#: How a provider says that it does not know the stream, or not yet.
_NOT_YET = 404

_log = structlog.get_logger()


def asking(client: Client, settings: Settings) -> Callable[[str, str], Awaitable[Tokens | None]]:
    """Takes the alias of a key and the id of a stream; None when the provider does not say."""

    async def ask(alias: str, response_id: str) -> Tokens | None:
        key = settings.key(alias)
        if key is None or key.profile.usage_path is None:
            return None
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(_ANSWER_S):
                    used = await client.used(key, response_id)
            except UpstreamFailure as failure:
                if failure.status != _NOT_YET:
                    return None
                continue
            except TimeoutError:
                return None
            if used is not None:
                return _tokens(used)
        return None

    return ask


def stopping(client: Client, settings: Settings) -> Callable[[str, str], Awaitable[Tokens | None]]:
    """Takes the alias of a key and the id of a background response, and stops that; what it has
    used, None when the provider does not say."""

    async def stop(alias: str, response_id: str) -> Tokens | None:
        key = settings.key(alias)
        for pause_s in _PAUSES_S:
            if key is None:
                break
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(_ANSWER_S):
                    used = await client.cancel(key, response_id)
            except UpstreamFailure as failure:
                if failure.retryable:
                    continue
                break
            except TimeoutError:
                break
            return None if used is None else _tokens(used)
        _log.warning("response.not_stopped", key=alias, response=response_id)
        return None

    return stop


def _tokens(used: Usage) -> Tokens:
    return Tokens(
        input=used.input_tokens,
        cached=used.cached_tokens,
        output=used.output_tokens,
        reasoning=used.reasoning_tokens,
    )
