"""What is right in each quirk, as data: the end a reader must have, and what it must have read.

Texts are not here: the simulator's ledger knows them. `ALL` is everything it meant to say, `SENT`
what it had written when it broke off, `PREFIX` any true beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Text = Literal["all", "sent", "prefix"]
Ends = Literal["completed", "incomplete", "filtered", "refused", "failed"]
Retry = Literal["never", "later"]

#: Two tool calls every scenario about them makes, however it cuts them up.
CALLS = (("one", '{"a": 1}'), ("two", '{"b": 2}'))


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right end of one scenario. What is left out is not asked for.

    `kinds` are the failure kinds that are right here. `retry` says whether the same request can
    succeed later. `delay_s` bounds the wait the provider asked for; with `backoff` it asked for
    none that makes sense, and coming back at once would be a hot loop. `posts` is how often the
    request may have been sent. `unsaid`: the provider itself does not say how the answer ended.
    `within_s` is when the end must be known. `names` must stand in the error. A client that
    follows a harmless redirect is right too: `or_answered`.
    """

    ends: Ends = "completed"
    text: Text = "all"
    kinds: frozenset[str] = frozenset()
    retry: Retry | None = None
    delay_s: tuple[float, float] | None = None
    backoff: bool = False
    posts: int | None = None
    unsaid: bool = False
    within_s: float | None = None
    names: str = ""
    or_answered: bool = False
    usage: bool = False
    thinking: bool = False
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """For people, in a table."""
        if self.ends == "failed":
            told = [f"an error ({' or '.join(sorted(self.kinds))})"]
            asked = {
                f"retry {self.retry}": self.retry is not None,
                "after the wait asked for": self.delay_s is not None,
                "not at once": self.backoff,
                "posted once": self.posts == 1,
                "naming the target": bool(self.names),
                "in time": self.within_s is not None,
            }
        else:
            told = ["exact text", self.ends]
            asked = {
                "usage": self.usage,
                "reasoning apart": self.thinking,
                "both calls": bool(self.calls),
                "in time": self.within_s is not None,
            }
        return ", ".join([*told, *(words for words, wanted in asked.items() if wanted)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How the scenarios of a quirk are asked for.

    `retries`: the SDK keeps its own retries, since they are the point; else it has none. `short`:
    time-outs are cut to a second or two, since the scenario never ends. `paced`: silences last a
    tenth of what they are, and are not left out. `inline`: our client is told of think tags.
    """

    retries: bool = False
    short: bool = False
    paced: bool = False
    inline: bool = False
    chat_only: bool = False


@dataclass(frozen=True, slots=True)
class Quirk:
    """One number of the catalogue. `right` holds for every scenario that `but` does not name."""

    number: str
    what: str
    right: Right = field(default_factory=Right)
    but: Mapping[str, Right] = field(default_factory=dict)
    setting: Setting = field(default_factory=Setting)

    def right_for(self, scenario: str) -> Right:
        """`scenario` without its `sim:` and its number."""
        return self.but.get(scenario, self.right)


def fails(*kinds: str, text: Text = "sent", **more: object) -> Right:
    """An error of one of these kinds, after everything that came before it."""
    return Right(ends="failed", kinds=frozenset(kinds), text=text, **more)  # type: ignore[arg-type]
