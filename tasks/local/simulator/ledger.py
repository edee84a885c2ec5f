"""What was really sent and billed, request by request: the truth that tests compare against.

Bounded: the oldest entries go first, when there are too many or their texts grow too large.
A key is known by the start of its hash only. Times are wall-clock seconds.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

from tasks.local.simulator.ask import Ask
from tasks.local.simulator.bill import Bill, Line
from tasks.local.simulator.entry import Entry as Entry

ENTRIES = 10_000
#: All texts of the ledger together; long answers push old entries out sooner.
TEXT_CHARS = 64_000_000


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
        #: Pushed out while they still ran.
        self._running: list[Entry] = []
        self._bill = Bill()
        self._named: OrderedDict[str, Entry] = OrderedDict()

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

    def name(self, entry: Entry, response_id: str) -> None:
        """The id its answer has; equal requests have equal ones, and the latest counts."""
        self._named.pop(response_id, None)
        self._named[response_id] = entry
        if len(self._named) > self._limit:
            self._named.popitem(last=False)

    def ended(self, response_id: str, key: str) -> Entry | None:
        """The entry of an answer of this key, once nothing of it can come any more."""
        entry = self._named.get(response_id)
        return entry if entry is not None and entry.key == key and entry.ended else None

    def get(self, request_id: str) -> Entry | None:
        return self._entries.get(request_id)

    def views(self, last: int | None = None) -> list[dict[str, Any]]:
        """The entries, oldest first; the `last` ones if given."""
        found = list(self._entries.values())
        return [entry.view() for entry in (found if last is None else found[-last:])]

    def bill(self) -> list[Line]:
        """What every key is to pay for, whatever was pushed out."""
        for entry in [entry for entry in self._running if entry.ended is not None]:
            self._running.remove(entry)
            self._bill.settle(entry)
        return self._bill.lines([*self._entries.values(), *self._running])

    def asked(self, prompt_seed: str) -> list[dict[str, Any]]:
        """The entries of one prompt, oldest first."""
        return [e.view() for e in self._entries.values() if e.prompt_seed == prompt_seed]

    def _trim(self) -> None:
        while len(self._entries) > 1 and (
            len(self._entries) > self._limit or self._text_chars > self._text_limit
        ):
            _, gone = self._entries.popitem(last=False)
            self._text_chars -= len(gone.visible)
            if gone.ended is None:
                self._running.append(gone)
            else:
                self._bill.settle(gone)
