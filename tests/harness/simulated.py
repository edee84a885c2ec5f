"""What the tests of the simulator read its bytes with: simple, and independent of the product."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tasks.local.simulator.ask import Ask, Refusal, parse_chat, parse_responses
from tasks.local.simulator.scenarios import SCENARIOS
from tasks.local.simulator.steps import Send, Step


def chat_ask(prompt: str = "Say something.", model: str = "gpt-5.5-codex", **more: Any) -> Ask:
    """A streamed chat request."""
    message = {"role": "user", "content": prompt}
    body = {"model": model, "stream": True, "messages": [message]} | more
    return _parsed(parse_chat(json.dumps(body).encode()))


def responses_ask(prompt: str = "Say something.", model: str = "gpt-5.5-codex", **more: Any) -> Ask:
    """A streamed request in the Responses dialect."""
    body = {"model": model, "stream": True, "input": prompt} | more
    return _parsed(parse_responses(json.dumps(body).encode()))


def _parsed(ask: Ask | Refusal) -> Ask:
    assert isinstance(ask, Ask), ask
    return ask


def steps(ask: Ask) -> list[Step]:
    """The script of a request."""
    scenario = SCENARIOS[ask.model]
    return list(scenario.script(ask, scenario.intended(ask)))


def sent(script: Iterable[Step]) -> bytes:
    """The body that a script writes."""
    return b"".join(step.data for step in script if isinstance(step, Send))


def payloads(body: bytes) -> list[Any]:
    """The JSON documents of a well-formed stream; the sentinel is dropped."""
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
    return [json.loads(line) for line in data if line != b"[DONE]"]


def chat_text(body: bytes, field: str = "content") -> str:
    """One field of all deltas of a chat stream."""
    deltas = [choice["delta"] for chunk in payloads(body) for choice in chunk["choices"]]
    return "".join(delta.get(field) or "" for delta in deltas)


def responses_text(body: bytes) -> str:
    """The output text deltas of a Responses stream."""
    events = payloads(body)
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
