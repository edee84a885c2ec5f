"""What a refactor changes, line by line, from the job's arguments and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.edits.diff import unified_diff
from tasks.kinds import sources_of

_KINDS = {"+": "added", "-": "removed", "@": "place", "\\": "place"}
#: What says to a screen reader what the sign says to the eye.
_TAGS = {"added": "ins", "removed": "del"}


@dataclass(frozen=True, slots=True)
class Line:
    """`kind`: added, removed, place, or empty for what stays."""

    kind: str
    text: str

    @property
    def tag(self) -> str:
        return _TAGS.get(self.kind, "span")


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    lines: list[Line]
    added: int
    removed: int


def changes_of(files: Any, result: Any) -> list[Change]:
    """The files that a result changes, in the order of the arguments."""
    new: dict[str, str] = result.get("files", {})
    return [
        _change(source.path, source.text, new[source.path])
        for source in sources_of(files)
        if source.path in new
    ]


def _change(path: str, before: str, after: str) -> Change:
    diff = unified_diff(path, before.encode(), after.encode()).decode("utf-8", "replace")
    # The first three lines name the file, which the heading does.
    lines = [Line(_KINDS.get(line[:1], ""), line) for line in diff.split("\n")[3:] if line]
    kinds = [line.kind for line in lines]
    return Change(path, lines, kinds.count("added"), kinds.count("removed"))
