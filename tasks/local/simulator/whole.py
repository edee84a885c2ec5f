"""The answer to a request that did not ask for a stream: what would have been streamed, as one
JSON object, after as long a time. A fault of the connection hits it half-way.
"""

from __future__ import annotations

from tasks.local.simulator import chat, responses
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.steps import Ending, Framing, Head, Pause, Script, Send


def whole(ask: Ask, steps: Script, *, refusal: bool) -> Script:
    """`steps` of a stream turned into one object; any other answer stays as it is."""
    head = next(steps)
    if not isinstance(head, Head) or not _is_stream(head):
        yield head
        yield from steps
        return
    told = list(steps)
    yield Pause(sum(step.seconds for step in told if isinstance(step, Pause)))
    sends = [step for step in told if isinstance(step, Send)]
    ending = told[-1] if told and isinstance(told[-1], Ending) else None
    yield from _object(ask, sends, ending, refusal=refusal)


def _is_stream(head: Head) -> bool:
    kind = dict(head.headers).get("content-type", "")
    return head.status == 200 and kind.startswith("text/event-stream")


def _object(ask: Ask, sends: list[Send], ending: Ending | None, *, refusal: bool) -> Script:
    text = "".join(send.text for send in sends)
    visible = sum(send.text_tokens for send in sends)
    thinking = sum(send.thinking_tokens for send in sends)
    finish = next((send.finish for send in reversed(sends) if send.finish), "")
    if ask.dialect == "chat":
        billed = chat.usage(ask, visible, thinking)
        data = chat.completion(ask, text, finish, billed, refusal=refusal)
    else:
        data = responses.final(ask, text, finish, visible, thinking, refusal=refusal)
    headers = (("content-type", "application/json"),)
    yield Head(headers=headers, framing=Framing.LENGTH, length=len(data))
    if ending is None:
        yield Send(
            data=data,
            text=text,
            text_tokens=visible,
            thinking_tokens=thinking,
            finish=finish,
        )
    else:
        yield Send(data=data[: len(data) // 2])
        yield ending
