"""One request as the ledger keeps it."""

from __future__ import annotations

from typing import Any

import msgspec

from tasks.local.simulator.steps import Send


class Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


class Entry(msgspec.Struct):
    """One request. `visible_sent` is always a prefix of `visible`, the text intended.

    `usage` is what was generated so far, also when the client left or the stream broke.
    `finished` says that the script was performed to its end; `ending` how that end looked.
    """

    id: str
    path: str
    key: str
    arrived: float
    model: str = ""
    prompt_seed: str = ""
    nth: int = 0
    parameters: dict[str, Any] = {}
    status: int = 0
    bytes_sent: int = 0
    visible_chars_sent: int = 0
    visible: str = ""
    finish: str = ""
    ending: str = ""
    finished: bool = False
    client_disconnected: bool = False
    first_byte: float | None = None
    ended: float | None = None
    #: False when it only takes up what another request has asked for.
    asked: bool = True
    #: False when the tokens are billed whether a client reads them or not.
    billed_as_sent: bool = True
    usage: Usage = msgspec.field(default_factory=Usage)

    def sent(self, step: Send) -> None:
        """Count what `step` carried."""
        self.bytes_sent += len(step.data)
        self.visible_chars_sent += len(step.text)
        if step.finish:
            self.finish = step.finish
        if self.billed_as_sent:
            self.usage.reasoning_tokens += step.thinking_tokens
            self.usage.completion_tokens += step.text_tokens + step.thinking_tokens

    def bill(self, visible: int, thinking: int) -> None:
        """Set what was generated, whatever was sent."""
        self.usage.reasoning_tokens = thinking
        self.usage.completion_tokens = visible + thinking

    def view(self) -> dict[str, Any]:
        """The entry as it is shown."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        shown["visible_sent"] = self.visible[: self.visible_chars_sent]
        return shown
