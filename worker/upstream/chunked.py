"""The chunked framing of a body, without I/O: bytes in, the body's bytes out.

Work is linear in the bytes fed, and a read full of small chunks becomes one piece. The end is told
by the last chunk alone: a body whose connection ends before it was cut.
"""

from __future__ import annotations

import re

#: The size line of a chunk with all that may stand in it; anything longer is no size line.
_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?\r\n")
_LINE_BYTES = 16 * 1024
_TRAILER_BYTES = 64 * 1024


class Chunked:
    """Reads one body. `over`: its last chunk was there; `rest` is then what came behind it.
    `broken`: what came behind the pieces so far is no chunk. `fresh`: a chunk comes next."""

    __slots__ = ("_left", "broken", "fresh", "over", "rest")

    def __init__(self) -> None:
        self.over = self.broken = False
        #: Bytes that wait for more: of a line, or of what stands behind the last chunk.
        self.rest = b""
        #: Bytes of the current chunk that are still to come, its line end included.
        self._left = 0
        self.fresh = True

    def feed(self, data: bytes) -> bytes:
        """The body's bytes among these."""
        if not self._left and not self.rest and (found := _SIZE.match(data)) is not None:
            # Mostly a read is one whole chunk.
            begin, size = found.end(), int(found[1], 16)
            if size and begin + size + 2 == len(data) and data.endswith(b"\r\n"):
                return data[begin:-2]
        piece = self._fed(data)
        self.fresh = not (self._left or self.rest or self.over or self.broken)
        return piece

    def _fed(self, data: bytes) -> bytes:
        if self.rest:
            data, self.rest = self.rest + data, b""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._left:
                upto = at + self._left
                if upto > end:
                    # The line end of a chunk is checked with its last byte of data before it.
                    upto = end if self._left - (end - at) >= 2 else upto - 2
                    pieces.append(data[at:upto])
                    self._left -= upto - at
                    self.rest = data[upto:]
                    break
                pieces.append(data[at : upto - 2])
                if data[upto - 2 : upto] != b"\r\n":
                    self.broken = True
                    break
                self._left, at = 0, upto
                continue
            found = _SIZE.match(data, at)
            if found is None:
                self.rest = data[at:]
                self.broken = b"\n" in self.rest or len(self.rest) > _LINE_BYTES
                break
            size, at = int(found[1], 16), found.end()
            if not size:
                self._close(data[found.start() :], at - found.start())
                break
            self._left = size + 2
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _close(self, data: bytes, at: int) -> None:
        """The last chunk is there; the body is over once its trailers are."""
        end = at if data.startswith(b"\r\n", at) else data.find(b"\r\n\r\n", at) + 2
        if end >= at:
            self.over, self.rest = True, data[end + 2 :]
        else:
            self.rest = data
            self.broken = len(data) > _TRAILER_BYTES
