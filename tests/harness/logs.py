"""Logs made on purpose: attempts by a real writer's rules, without a store."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.log import entries
from worker.log.cursor import START, Cursor
from worker.log.entries import Mode
from worker.log.stored import Stored


@dataclass
class LogMaker:
    """Appends as the scripts do; `text` is what a clean reader must end up with."""

    log: list[Stored] = field(default_factory=list)
    text: str = ""
    attempt: int = 0

    def claim(self, mode: Mode, *, base: Cursor | None = None) -> None:
        """Begin an attempt. `base`: what it keeps, when that is not all there is."""
        self.attempt += 1
        keeps = mode in (Mode.REATTACH, Mode.CONTINUE, Mode.CLOSE) and bool(self.log)
        last = self.log[-1].at if self.log else START
        self.text = self.text if keeps else ""
        first = entries.Attempt(
            mode=mode,
            base=str(base or (last if keeps else START)),
            offset=len(self.text),
            after=str(last),
            worker=f"w{self.attempt}",
        )
        payload = entries.encode(first)
        self.log.append(Stored(Cursor(self.attempt, 0), payload, entries.check_of_first(payload)))

    def say(self, text: str) -> None:
        self._append(entries.Text(offset=len(self.text), text=text))
        self.text += text

    def think(self, tokens: int) -> None:
        self._append(entries.Thinking(offset=len(self.text), tokens=tokens))

    def hand_back(self, reason: str) -> None:
        self._append(entries.Note(offset=len(self.text), what="handed_back", reason=reason))

    def seal(self, outcome: str = "completed") -> None:
        self._append(
            entries.End(
                offset=len(self.text),
                outcome=outcome,
                digest=hashlib.sha256(self.text.encode()).hexdigest(),
                attempts=self.attempt,
            )
        )

    def _append(self, entry: entries.Entry) -> None:
        payload, last = entries.encode(entry), self.log[-1]
        assert last.check is not None
        check = entries.check_behind(payload, last.check)
        self.log.append(Stored(Cursor(self.attempt, last.at.seq + 1), payload, check))


def restarted(first: Sequence[str], second: Sequence[str]) -> LogMaker:
    """A sealed log of two attempts, the second a restart."""
    made = LogMaker()
    made.claim(Mode.START)
    for text in first:
        made.say(text)
    made.claim(Mode.RESTART)
    for text in second:
        made.say(text)
    made.seal()
    return made
