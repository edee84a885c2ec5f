"""The entries of one attempt as they were sent, kept to be sent again.

They are kept as long as the attempt runs, so they are kept small: documents end to end in one
buffer, ends and checks in arrays, 76 bytes for a delta where tuples of objects take 195.
"""

from __future__ import annotations

from array import array

from worker.log import entries


class Sent:
    """Numbered from 0, which is the entry the claim wrote."""

    __slots__ = ("_checks", "_documents", "_ends")

    def __init__(self, first: bytes) -> None:
        self._documents = bytearray(first)
        self._ends = array("Q", [len(first)])
        self._checks = array("L", [entries.check_of_first(first)])

    def __len__(self) -> int:
        return len(self._ends)

    def checked(self, entry: entries.Entry) -> tuple[bytes, int]:
        """The entry as it would stand behind the last one, and its check."""
        payload = entries.encode(entry)
        return payload, entries.check_behind(payload, self._checks[-1])

    def add(self, entry: entries.Entry) -> None:
        payload = entries.encode(entry)
        self._documents += payload
        self._ends.append(len(self._documents))
        self._checks.append(entries.check_behind(payload, self._checks[-1]))

    def check(self, seq: int) -> int:
        return self._checks[seq]

    def since(self, seq: int) -> list[bytes | int]:
        """Document and check of every entry from `seq` on, as the script takes them."""
        parts: list[bytes | int] = []
        begin = self._ends[seq - 1] if seq else 0
        for place in range(seq, len(self._ends)):
            end = self._ends[place]
            parts += bytes(self._documents[begin:end]), self._checks[place]
            begin = end
        return parts
