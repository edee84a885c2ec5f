"""The other contender: the official SDK with its defaults, in the loop its own pages show.

Its time-outs for silence are divided by the factor of the run, as the simulator's silences are;
those for connections are not, since the loopback is no faster than it was. A text that ends
without an exception counts as a success, because that is what its caller sees.
"""

from __future__ import annotations

import time
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from tasks.bench.plan import Task, Truth
from tasks.bench.sample import Sample, Verdict
from worker.log.entries import Tokens

#: What the samples of this contender are called in the state file.
PHASE = "sdk"


def version() -> str | None:
    """The installed version; None when it is missing."""
    return metadata.version("openai") if find_spec("openai") else None


class Sdk:
    """An async context manager around one client."""

    def __init__(self, base_url: str, model: str, factor: float, truth: Truth) -> None:
        import openai

        usual = openai.DEFAULT_TIMEOUT
        self._client = openai.AsyncOpenAI(
            api_key="simulated",
            base_url=base_url,
            timeout=openai.Timeout(
                connect=usual.connect,
                read=usual.read / factor,
                write=usual.write,
                pool=usual.pool,
            ),
        )
        self._model = model
        self._truth = truth

    async def close(self) -> None:
        await self._client.close()

    async def one(self, task: Task) -> Sample:
        began = time.monotonic()
        heard, detail, verdict = _Heard(), "", Verdict.EXACT
        try:
            await self._read(task, heard)
        except Exception as error:
            detail = type(error).__name__
            verdict = Verdict.TIMEOUT if "Timeout" in detail else Verdict.ERROR
        else:
            if "".join(heard.text) != await self._truth(task):
                verdict = Verdict.WRONG
        return Sample(
            phase=PHASE,
            n=task.n,
            kind=task.kind,
            effort=task.effort,
            verdict=verdict,
            detail=detail,
            seconds=time.monotonic() - began,
            characters=sum(map(len, heard.text)),
            tokens=heard.tokens,
        )

    async def _read(self, task: Task, heard: _Heard) -> None:
        stream = await self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "user", "content": task.prompt}],
            reasoning_effort=task.effort,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            if chunk.usage:
                heard.tokens = _tokens(chunk.usage)
            if chunk.choices:
                heard.text.append(chunk.choices[0].delta.content or "")


class _Heard:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.tokens: Tokens | None = None


def _tokens(usage: Any) -> Tokens:
    details = usage.completion_tokens_details
    return Tokens(
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        reasoning=(details and details.reasoning_tokens) or 0,
    )
