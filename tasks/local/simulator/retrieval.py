"""`/v1/responses/{id}`: polling, coming back to a stream, and cancelling.

As with the real API, only a background response outlives its connection: of a foreground one,
nothing can be had unless it was answered to its end.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import msgspec

from tasks.local.simulator import failures
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.background import (
    Stored,
    remaining_text,
    retrieved,
    until_cancelled,
    used,
)
from tasks.local.simulator.ledger import Entry, Ledger
from tasks.local.simulator.responses import response_id
from tasks.local.simulator.scenarios.scenario import Scenario
from tasks.local.simulator.steps import Script

RESPONSES = 1_000
#: How long the stream of a background response can be joined again.
RESUMABLE_S = 300.0


class Responses:
    """The stored responses of one simulator."""

    def __init__(self, ledger: Ledger, speed: float) -> None:
        self._ledger = ledger
        self._speed = speed
        self._stored: OrderedDict[str, Stored] = OrderedDict()

    def keep(self, ask: Ask, scenario: Scenario, answer: Answer, entry: Entry) -> None:
        """Store the response to `ask`, and bill a background one, which nobody has to read."""
        stored = Stored(
            ask=ask,
            answer=answer,
            shape=scenario.shape,
            resume=scenario.resume,
            request_id=entry.id,
            begun=time.monotonic(),
        )
        self._stored[response_id(ask)] = stored
        if len(self._stored) > RESPONSES:
            self._stored.popitem(last=False)
        if ask.background:
            entry.billed_as_sent = False
            entry.bill(*used(stored.generated(float("inf"))[0]))

    def begun(self, ask: Ask, script: Script) -> Script:
        """What the connection of a background request performs, instead of `script` alone."""
        stored = self._stored[response_id(ask)]
        if ask.stream:
            return until_cancelled(stored, script)
        return failures.body(msgspec.json.encode(retrieved(stored, -1.0)))

    def get(self, name: str, query: dict[str, str], entry: Entry) -> Script:
        """`GET /v1/responses/{id}`, also with `stream=true&starting_after=N`."""
        stored = self._available(name)
        if stored is None:
            return failures.no_response(name)
        if query.get("stream") == "true":
            return self._joined(stored, query.get("starting_after", "-1"), entry)
        return failures.body(msgspec.json.encode(retrieved(stored, self._elapsed_s(stored))))

    def cancel(self, name: str) -> Script:
        """`POST /v1/responses/{id}/cancel`; a finished response stays as it is."""
        stored = self._available(name)
        if stored is None:
            return failures.no_response(name)
        if not stored.ask.background:
            return failures.failure(400, "Cannot cancel a synchronous response.")
        elapsed_s = self._elapsed_s(stored)
        events, whole = stored.generated(elapsed_s)
        if not whole and stored.cancelled_s is None:
            stored.cancelled_s = elapsed_s
            billed = self._ledger.get(stored.request_id)
            if billed is not None:
                billed.bill(*used(events))
        return failures.body(msgspec.json.encode(retrieved(stored, elapsed_s)))

    def _available(self, name: str) -> Stored | None:
        stored = self._stored.get(name)
        if stored is None or stored.ask.background:
            return stored
        entry = self._ledger.get(stored.request_id)
        return stored if entry is not None and entry.finish else None

    def _elapsed_s(self, stored: Stored) -> float:
        """In the response's own time. A foreground one that is available is over."""
        if not self._speed or not stored.ask.background:
            return float("inf")
        return (time.monotonic() - stored.begun) * self._speed

    def _joined(self, stored: Stored, after: str, entry: Entry) -> Script:
        if not stored.ask.background or not stored.ask.stream:
            return failures.failure(
                400,
                "This response cannot be streamed: it was not created with background=true and "
                "stream=true.",
                param="stream",
            )
        if time.monotonic() - stored.begun > RESUMABLE_S:
            return failures.too_old()
        if not after.removeprefix("-").isdecimal():
            return failures.failure(400, "Invalid 'starting_after'.", param="starting_after")
        number = int(after)
        entry.billed_as_sent = entry.asked = False
        self._ledger.open(entry)
        self._ledger.intend(entry, stored.ask, remaining_text(stored, number))
        entry.usage.prompt_tokens = 0
        return stored.resume(stored, number, self._elapsed_s(stored))
