"""Which files travel together. Pure, and the same for the same files.

Files are joined into groups along what relates them, closest first. Two groups are joined only when
both fit into one request together, so a group that is full stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from settings.model import Account, Settings
from settings.windows import Window
from tasks.edits.source import SourceFile
from tasks.runs.related import relations
from worker.admission.estimates import tokens_of

#: What the instruction, the form of the answer and the markers take beside the files.
_FRAME_TOKENS = 2_000
#: Reasoning counts as output, and a request may have this much of it.
_REASONING_TOKENS = 4_096
#: A marker pair and its path.
_BLOCK_TOKENS = 40
#: The answer is a little longer than what was sent.
_GROWTH = 1.25
#: More is no help to the model, and takes it over six minutes to give back.
_COMFORTABLE_TOKENS = 10_000
#: Of what the most generous account takes in a minute, what one request may take.
_SHARE_OF_A_MINUTE = 0.8


def tokens_of_file(file: SourceFile) -> int:
    return tokens_of(file.text) + _BLOCK_TOKENS


def room(window: Window, per_minute: float) -> int:
    """Tokens of files that one request may carry and still get back."""
    hard = room_of_one(window)
    of_a_minute = (per_minute * _SHARE_OF_A_MINUTE - _FRAME_TOKENS) / (1 + _GROWTH)
    return int(max(1, min(hard, _COMFORTABLE_TOKENS, of_a_minute)))


def room_of_one(window: Window) -> int:
    """The largest file that can come back whole."""
    read_and_written = (window.context - _FRAME_TOKENS - _REASONING_TOKENS) / (1 + _GROWTH)
    return int(min(read_and_written, (window.output - _REASONING_TOKENS) / _GROWTH))


def most_a_minute(settings: Settings, model: str) -> float:
    """Tokens a minute of the most generous account that serves the model."""
    if not settings.pools:
        # The simulator will stand in, and has no limits.
        return float("inf")
    keys = settings.pool_for(model).keys
    accounts = (settings.accounts.get(key.account) for key in keys)
    return max((_a_minute(account, model) for account in accounts), default=float("inf"))


def _a_minute(account: Account | None, model: str) -> float:
    if account is None:
        return float("inf")
    limits = (account, *(family for family in account.families if family.serves(model)))
    return min((each.tokens_per_minute or float("inf") for each in limits), default=float("inf"))


def pack(files: Sequence[SourceFile], limit: int) -> list[list[SourceFile]]:
    """Groups of at most `limit` tokens, in the order of their first files; a file that has more
    travels alone."""
    groups = _Groups([tokens_of_file(file) for file in files], limit)
    for one, other in relations(files):
        groups.join(one, other)
    return [[files[index] for index in members] for members in groups.members()]


class _Groups:
    """Union-find over indices, with a size that no union may pass."""

    def __init__(self, sizes: Sequence[int], limit: int) -> None:
        self._parent = list(range(len(sizes)))
        self._size = list(sizes)
        self._limit = limit

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self._root(one), self._root(other)))
        if low != high and self._size[low] + self._size[high] <= self._limit:
            self._parent[high] = low
            self._size[low] += self._size[high]

    def members(self) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for index in range(len(self._parent)):
            found.setdefault(self._root(index), []).append(index)
        return list(found.values())

    def _root(self, index: int) -> int:
        while self._parent[index] != index:
            self._parent[index] = self._parent[self._parent[index]]
            index = self._parent[index]
        return index
