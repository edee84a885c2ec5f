"""What has come of a run so far. Pure: it is fed the items of the jobs' logs.

A file is ready when the model has finished it, whatever becomes of the rest of the answer. When an
answer is restarted, what was ready is not any more, until it comes again; a file that comes again
as it was is not said twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from settings.errors import LongstreamError
from tasks.edits.reading import AnswerReading
from worker.ledger.spending import text_tokens
from worker.ledger.totals import Money
from worker.log.entries import Tokens
from worker.log.view import Attempt, Cut, End, Followed, Status, Text, Thinking

COMPLETED = "completed"


class Ready(msgspec.Struct, frozen=True):
    """The model has finished a file; `again`: it was ready before, with another text."""

    job_id: str
    path: str
    text: str
    again: bool = False


class Ended(msgspec.Struct, frozen=True):
    """A job has ended, and `files` is what there is of it."""

    job_id: str
    outcome: str
    reason: str
    files: Mapping[str, str]
    notes: str = ""


Event = Ready | Ended


class JobView(msgspec.Struct):
    """One job as it stands. `state` is that of the log: waiting, running, lost, ended."""

    id: str
    paths: tuple[str, ...]
    state: str = "waiting"
    detail: str = ""
    place: int | None = None
    key: str = ""
    attempt: int = 0
    thinking: int = 0
    chars: int = 0
    usage: Tokens | None = None
    outcome: str = ""
    reason: str = ""
    #: About how many tokens are sent with each request, and how many of them each file is.
    prompt: int = 0
    sizes: Mapping[str, int] = msgspec.field(default_factory=dict)
    #: About what earlier requests took that what is there does not show.
    before: Tokens = msgspec.field(default_factory=Tokens)
    #: What all attempts took together and what that costs, once the record says so.
    taken: Tokens | None = None
    cost: Money | None = None
    #: The new text of each file that is ready now.
    ready: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def writing(self) -> str:
        """The file the model is at, as far as that can be told: the first that is not ready."""
        if self.state != "running" or not self.chars:
            return ""
        return next((path for path in self.paths if path not in self.ready), "")

    @property
    def tokens(self) -> Tokens:
        """What all its attempts have taken so far; about that, until it has ended."""
        if self.taken is not None:
            return self.taken
        if self.usage is not None:
            return self.usage
        if not self.attempt:
            return Tokens()
        output = self.thinking + text_tokens(self.chars)
        return self.before + Tokens(input=self.prompt, output=output, reasoning=self.thinking)

    def share_of(self, path: str) -> float:
        """The part of the job that is for one of its files, by what is sent."""
        whole = sum(self.sizes.values())
        return self.sizes[path] / whole if whole else 1 / len(self.paths)


class JobProgress:
    """Reads one job's answer along with its log."""

    def __init__(self, view: JobView, reading: AnswerReading) -> None:
        self.view = view
        self._first = reading
        self._reading = reading.anew()
        self._pieces: list[str] = []
        #: Where corrections begin in the text.
        self._turns: list[int] = []
        self._said: dict[str, str] = {}

    def take(self, item: Followed) -> list[Event]:
        view = self.view
        if isinstance(item, Text):
            view.state, view.chars = "running", item.offset + len(item.text)
            self._pieces.append(item.text)
            return self._ready() if self._reading.take(item.text) else []
        if isinstance(item, Attempt):
            self._begin(item)
        elif isinstance(item, Cut):
            self._cut(item.offset)
        elif isinstance(item, Thinking):
            view.state, view.thinking = "running", item.tokens
        elif isinstance(item, Status):
            view.state, view.detail, view.place = item.state, item.detail, item.place
        elif isinstance(item, End):
            return self._end(item)
        return []

    def _begin(self, attempt: Attempt) -> None:
        view = self.view
        if view.attempt and attempt.mode != "reattach":
            sent = Tokens(input=view.prompt, output=view.thinking, reasoning=view.thinking)
            view.before += sent
        view.state, view.key, view.attempt = "running", attempt.key, attempt.attempt
        view.thinking = 0
        if attempt.mode == "repair":
            self._turns.append(view.chars)
            self._reading.close()
            self._reading = self._reading.corrected()

    def _cut(self, offset: int) -> None:
        """Read again what stays."""
        text = "".join(self._pieces)[:offset]
        self._pieces = [text]
        self._turns = [turn for turn in self._turns if turn < offset]
        self._reading = self._first.anew()
        begun = 0
        for turn in self._turns:
            self._reading.take(text[begun:turn])
            self._reading.close()
            self._reading, begun = self._reading.corrected(), turn
        self._reading.take(text[begun:])
        self.view.before += Tokens(output=text_tokens(max(0, self.view.chars - offset)))
        self.view.chars, self.view.ready = offset, self._reading.ready

    def _end(self, end: End) -> list[Event]:
        view, notes = self.view, ""
        view.state, view.outcome, view.reason = "ended", end.outcome, end.reason
        view.usage = end.usage
        if end.outcome == COMPLETED:
            self._reading.close()
            with suppress(LongstreamError):
                notes = self._reading.finish()["notes"]
        events = self._ready()
        return [*events, Ended(view.id, end.outcome, end.reason, view.ready, notes)]

    def _ready(self) -> list[Event]:
        ready = self._reading.ready
        if ready == self.view.ready:
            return []
        self.view.ready = ready
        events: list[Event] = []
        for path, text in ready.items():
            if self._said.get(path) != text:
                events.append(Ready(self.view.id, path, text, again=path in self._said))
                self._said[path] = text
        return events


def tokens_of_run(views: Sequence[JobView]) -> Tokens:
    """What all jobs have taken so far."""
    return sum((view.tokens for view in views), Tokens())
