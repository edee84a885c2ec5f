"""What a job will take, as far as that can be told when it is submitted.

The prompt is measured; how long the answer gets is learned by the line, for each task, model and
effort. A job that can never fit is refused here, with the reason, instead of waiting for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from settings.errors import LongstreamError
from settings.model import Account, Key, Pool, Settings
from worker.admission.tickets import Estimate
from worker.upstream.request import DEFAULT_EFFORT, Message, Request

#: Characters a token: English and code; and everything that is not ASCII.
_PLAIN_CHARS, _OTHER_CHARS = 3.5, 1.2
_TOKENS_A_MESSAGE = 4


def estimate(request: Request) -> Estimate:
    """On the large side: a prompt that was taken for too small ends in a refusal. Raises
    LongstreamError for text that can not be sent at all."""
    try:
        prompt = sum(tokens_of(_text_of(message)) for message in request.messages)
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise LongstreamError(f"the prompt has {half}, which is no character") from None
    effort = request.effort or DEFAULT_EFFORT
    return Estimate(prompt=prompt, cap=request.max_output_tokens, effort=effort)


def pool_taking(settings: Settings, model: str, size: Estimate) -> Pool:
    """The pool that serves the job. Raises LongstreamError when none of its keys ever can."""
    pool = settings.pool_for(model)
    if not pool.keys:
        raise LongstreamError(f"pool {pool.name} has no key: add one to it in longstream.toml")
    needs = [_needed(settings.accounts.get(key.account), size) for key in pool.keys]
    limits = [_limit(settings.accounts.get(key.account), model) for key in pool.keys]
    if all(need > limit for need, limit in zip(needs, limits, strict=True)):
        raise LongstreamError(
            f"the request takes about {min(needs):,} tokens, and no key of pool {pool.name} may use"
            f" more than {max(limits):,.0f} a minute ({_names(pool.keys)}): send less, or raise"
            " tokens_per_minute if the provider allows more"
        )
    return pool


def _text_of(message: Message) -> str:
    if isinstance(message.content, str) and not message.more:
        if not message.content.isascii():
            message.content.encode()
        return message.content
    return msgspec.json.encode([message.content, message.more]).decode()


def tokens_of(text: str) -> int:
    """What a message of this text takes."""
    plain = sum(map(str.isascii, text)) if not text.isascii() else len(text)
    return _TOKENS_A_MESSAGE + math.ceil(plain / _PLAIN_CHARS + (len(text) - plain) / _OTHER_CHARS)


def _needed(account: Account | None, size: Estimate) -> int:
    counts_cap = account is not None and account.accounting == "admission"
    return size.prompt + (size.cap or 0 if counts_cap else 0)


def _limit(account: Account | None, model: str) -> float:
    if account is None:
        return math.inf
    families = [family for family in account.families if family.serves(model)]
    limits = [limits.tokens_per_minute for limits in (account, *families)]
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _names(keys: Iterable[Key]) -> str:
    return ", ".join(sorted({f"account {key.account}" for key in keys}))
