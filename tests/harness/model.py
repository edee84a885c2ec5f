"""What a job's log must hold, in plain lists: the model the real scripts are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from worker.log.cursor import START, Cursor


class Refused(Exception):
    """The writer does not own the job any more."""


@dataclass(frozen=True)
class Entry:
    """`uid`: whose it is. `base`: of an attempt's first entry, what it keeps of the log."""

    at: Cursor
    uid: int
    text: str = ""
    base: Cursor | None = None


@dataclass
class ModelWriter:
    uid: int
    attempt: int
    sent: list[Entry]
    kept: list[Entry]

    def next(self, text: str = "") -> Entry:
        entry = Entry(Cursor(self.attempt, len(self.sent)), self.uid, text)
        self.sent.append(entry)
        return entry


@dataclass
class ModelJob:
    """`rejoin`: whether a response can be taken up again."""

    policy: str
    log: list[Entry] = field(default_factory=list)
    attempt: int = 0
    state: str = "waiting"
    rejoin: bool = False

    def claim(self, uid: int) -> ModelWriter | None:
        if self.state == "ended":
            return None
        last = self.log[-1].at if self.log else START
        self.attempt = max(self.attempt, last.attempt) + 1
        said = bool(self.text())
        keeps = (self.rejoin and self.policy == "auto") or (self.policy == "continue" and said)
        if not keeps:
            self.rejoin = False
        kept = [each for each in self.log if self.keeps(each)] if keeps and said else []
        first = Entry(Cursor(self.attempt, 0), uid, base=last if keeps else START)
        self.log.append(first)
        self.state = "running"
        return ModelWriter(uid, self.attempt, [first], kept)

    def keeps(self, entry: Entry) -> bool:
        """Every entry up to the base, superseded ones as well: what is lost of it is restored."""
        return entry.at <= self.log[-1].at

    def write(self, writer: ModelWriter, entry: Entry) -> None:
        """Bring the log up to the writer's last entry, whatever it lacks."""
        assert entry is writer.sent[-1]
        last = self.log[-1]
        if last.at.attempt > writer.attempt:
            raise Refused
        if last.at.attempt == writer.attempt:
            if last.uid != writer.uid:
                raise Refused
            self.log += writer.sent[last.at.seq + 1 :]
            return
        if self.state == "ended":
            raise Refused
        self.log += [each for each in writer.kept if each.at > last.at]
        self.log += writer.sent

    def text(self) -> str:
        """The one answer."""
        parts: list[str] = []
        upto = self.log[-1].at if self.log else START
        while upto > START:
            run = [each for each in self.log if each.at.attempt == upto.attempt and each.at <= upto]
            parts.append("".join(each.text for each in run))
            upto = run[0].base or START
        return "".join(reversed(parts))
