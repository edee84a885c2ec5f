"""What was really sent and billed, request by request: the truth that tests compare against.

Bounded: the oldest entries go first, when there are too many or their texts grow too large.
A key is known by the start of its hash only. Times are wall-clock seconds.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from tasks.local.simulator.ask import Ask
from tasks.local.simulator.steps import Send

ENTRIES = 10_000
#: All texts of the ledger together; long answers push old entries out sooner.
TEXT_CHARS = 64_000_000


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


def key_hash(secret: str) -> str:
    """What the ledger calls a key."""
    return "key-" + hashlib.sha256(secret.encode()).hexdigest()[:12]


class Ledger:
    """The last requests, by id."""

    def __init__(self, entries: int = ENTRIES, text_chars: int = TEXT_CHARS) -> None:
        self._limit = entries
        self._text_limit = text_chars
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._text_chars = 0
        self._asked: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, seed: bytes) -> int:
        """How often this seed was asked for, now included."""
        times = self._asked.pop(seed, 0) + 1
        self._asked[seed] = times
        if len(self._asked) > self._limit:
            self._asked.popitem(last=False)
        return times

    def open(self, entry: Entry) -> None:
        """Keep `entry` from now on."""
        self._entries[entry.id] = entry

    def intend(self, entry: Entry, ask: Ask, visible: str) -> None:
        """Note what the request of `entry` is meant to get."""
        entry.model = ask.model
        entry.prompt_seed = ask.seed.hex()[:16]
        entry.nth = ask.nth
        entry.parameters = ask.parameters
        entry.visible = visible
        entry.usage.prompt_tokens = ask.prompt_tokens
        self._text_chars += len(visible)
        self._trim()

    def get(self, request_id: str) -> Entry | None:
        return self._entries.get(request_id)

    def views(self, last: int | None = None) -> list[dict[str, Any]]:
        """The entries, oldest first; the `last` ones if given."""
        found = list(self._entries.values())
        return [entry.view() for entry in (found if last is None else found[-last:])]

    def _trim(self) -> None:
        while len(self._entries) > 1 and (
            len(self._entries) > self._limit or self._text_chars > self._text_limit
        ):
            _, gone = self._entries.popitem(last=False)
            self._text_chars -= len(gone.visible)
