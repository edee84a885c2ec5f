"""What the tests of the simulator read its bytes with: simple, and independent of the product."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tasks.local.simulator.ask import Ask, Refusal, parse_chat, parse_responses
from tasks.local.simulator.scenarios import every
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
    scenario = every()[ask.model]
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


def decoded(body: bytes) -> list[tuple[str, str]]:
    """The (event, data) pairs of a stream, by the letter of the WHATWG rules."""
    text = body.decode("utf-8", errors="replace").removeprefix("\ufeff")
    lines = re.split("\r\n|\n|\r", text)[:-1]
    found: list[tuple[str, str]] = []
    name, data = "", []
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append((name, "\n".join(data)))
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return found


def visible(body: bytes) -> str:
    """The text that a tolerant reader shows: content and refusals, whatever their shape."""
    shown = []
    for _, data in decoded(body):
        if data == "[DONE]":
            break
        for document in _documents(data):
            shown.append(_said(document))
    return "".join(shown)


def _documents(data: str) -> list[Any]:
    for candidates in ([data], data.split("\n")):
        try:
            return [json.loads(text, strict=False) for text in candidates]
        except ValueError:
            continue
    return []


def _said(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    if document.get("type") in ("response.output_text.delta", "response.refusal.delta"):
        return str(document["delta"])
    deltas = [choice.get("delta") or {} for choice in document.get("choices", [])]
    return "".join(_plain(delta.get("content")) + (delta.get("refusal") or "") for delta in deltas)


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
