"""What a scenario is: a name, a sentence, and the stage of the ordinary way that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from tasks.local.simulator import answer as answers, chat, framing, responses
from tasks.local.simulator.answer import Answer
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.background import Resuming, attached
from tasks.local.simulator.events import Event, Shaping
from tasks.local.simulator.steps import Script
from tasks.local.simulator.whole import whole

Answering = Callable[[Ask], Answer]
Wiring = Callable[[Ask, Iterable[Event]], Script]


def natural(ask: Ask, answer: Answer) -> Iterator[Event]:
    """The events of an answer in the dialect of the request."""
    if ask.dialect == "chat":
        return chat.events(ask, answer)
    return responses.events(ask, answer)


def wired(_ask: Ask, events: Iterable[Event]) -> Script:
    """The ordinary connection."""
    return framing.stream(events)


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One named behaviour, asked for as a model.

    `answer` decides what is meant to be said, `shape` the events, `wire` what the connection
    does with them, and `resume` what happens to a client that comes back. `dialect` is
    the only one in which the behaviour exists.
    """

    name: str
    does: str
    dialect: Literal["chat", "responses", "both"] = "both"
    answer: Answering = answers.family
    shape: Shaping = natural
    wire: Wiring = wired
    resume: Resuming = attached

    @property
    def quirk(self) -> str:
        """The number in the catalogue of quirks that the name carries, if it carries one."""
        number = self.name.removeprefix("sim:").partition("-")[0]
        return number.upper() if number[:1] in "qr" and number[1:].isdecimal() else ""

    def speaks(self, dialect: str) -> bool:
        """Whether the behaviour exists in `dialect`."""
        return self.dialect in ("both", dialect)

    def intended(self, ask: Ask) -> Answer:
        """The whole answer, whatever the connection makes of it."""
        return self.answer(ask)

    def script(self, ask: Ask, answer: Answer) -> Script:
        """What the connection of `ask` performs."""
        steps = self.wire(ask, self.shape(ask, answer))
        return steps if ask.stream else whole(ask, steps, refusal=answer.refusal)


class Quirk(Scenario, frozen=True, kw_only=True):
    """A scenario that shows its point on a short answer."""

    answer: Answering = answers.brief
