"""A job's log as a person wants to see it: the text that stands, and how it came to be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from worker.log import entries
from worker.log.cursor import START, Cursor
from worker.log.stored import Stored, clean_text


@dataclass(slots=True)
class Chapter:
    """One attempt. `cut`: from which character on it replaced the text before it; None: it kept
    all of it."""

    number: int
    mode: str
    worker: str
    key: str
    model: str
    reason: str
    cut: int | None
    thinking: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Story:
    """`cursor`: where a reader goes on who has seen this."""

    text: str = ""
    cursor: Cursor = START
    chapters: list[Chapter] = field(default_factory=list)
    ended: bool = False

    @property
    def thinking(self) -> int:
        return self.chapters[-1].thinking if self.chapters else 0


def story_of(stored: Iterable[Stored]) -> Story:
    log = list(stored)
    story, length = Story(text=clean_text(log)), 0
    for each in log:
        entry = entries.decode(each.payload)
        story.cursor = each.at
        match entry:
            case entries.Attempt():
                cut = entry.offset if entry.offset < length else None
                story.chapters.append(_chapter(each.at.attempt, entry, cut))
            case entries.Thinking() if story.chapters:
                story.chapters[-1].thinking = entry.tokens
            case entries.Note() if story.chapters:
                story.chapters[-1].notes.append(" ".join(filter(None, (entry.what, entry.reason))))
            case entries.End():
                story.ended = True
        length = entries.end_offset(entry)
    return story


def _chapter(number: int, entry: entries.Attempt, cut: int | None) -> Chapter:
    return Chapter(
        number=number,
        mode=entry.mode,
        worker=entry.worker,
        key=entry.key,
        model=entry.model,
        reason=entry.reason,
        cut=cut,
    )
