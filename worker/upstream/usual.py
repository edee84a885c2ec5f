"""What nearly every read is made of: whole chunks of a body, each one event of one data line.

One pattern knows it; framing and decoder, between two chunks and two events, would make the same of
it in four times the time. Anything else is theirs. Mostly a read is one such chunk; it is several
when a provider says much at once, or a worker is late: then the short way matters most, since going
the long way would make it later still.
"""

from __future__ import annotations

import re

#: Its name may stand before the data: the documents of those that have one say it themselves.
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})\r\n((?:event: .*\n)?data: (.*)\n\n)\r\n")


def event_at(read: bytes, at: int) -> tuple[bytes, int] | None:
    """The data of the one event of the chunk that begins there, and where the next would begin;
    None for any other."""
    found = _CHUNK.match(read, at)
    if found is None:
        return None
    begin, end = found.span(2)
    if int(found[1], 16) != end - begin or read.find(b"\r", begin, end) >= 0:
        return None
    return found[3], end + 2
