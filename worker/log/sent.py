"""The entries of one attempt as they were sent, kept to be sent again.

They are kept as long as the attempt runs, so they are kept small: documents end to end in one
buffer, ends and checks in arrays, 76 bytes for a delta where tuples of objects take 195.
"""

from __future__ import annotations

from array import array

from worker.log import entries

#: Document and check of entries that follow each other, as the script takes them.
Documents = list[bytes]


class Sent:
    """Numbered from 0, which is the entry the claim wrote.

    `place` is what the next append begins with: id and check of the last entry, and the id of the
    one behind it.
    """

    __slots__ = ("_attempt", "_checks", "_documents", "_ends", "_last", "place")

    def __init__(self, attempt: int, first: bytes) -> None:
        self._attempt = attempt
        self._last = entries.check_of_first(first)
        self._documents = bytearray(first)
        self._ends = array("Q", [len(first)])
        self._checks = array("L", [self._last])
        self.place = (b"%d-0" % attempt, b"%d" % self._last, b"%d-1" % attempt)

    @property
    def count(self) -> int:
        return len(self._ends)

    def checked(self, entry: entries.Entry) -> tuple[bytes, int]:
        """The entry as it would stand behind the last one, and its check."""
        payload = entries.encode(entry)
        return payload, entries.check_behind(payload, self._last)

    def add(self, entry: entries.Entry) -> Documents:
        payload = entries.encode(entry)
        self._last = last = entries.check_behind(payload, self._last)
        self._documents += payload
        self._ends.append(len(self._documents))
        self._checks.append(last)
        check = b"%d" % last
        self.place = (self.place[2], check, b"%d-%d" % (self._attempt, len(self._ends)))
        return [payload, check]

    def check(self, seq: int) -> int:
        return self._checks[seq]

    def since(self, seq: int) -> Documents:
        """Every entry from `seq` on."""
        parts: Documents = []
        begin = self._ends[seq - 1] if seq else 0
        for place in range(seq, self.count):
            end = self._ends[place]
            parts += bytes(self._documents[begin:end]), b"%d" % self._checks[place]
            begin = end
        return parts
