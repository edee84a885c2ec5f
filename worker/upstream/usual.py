"""The read that nearly all are: one whole chunk of a body, and in it one event of one data line.

One pattern knows it; framing and decoder, between two chunks and two events, would make the same of
it in four times the time. Anything else is theirs.
"""

from __future__ import annotations

import re

#: Its name may stand before the data: the documents of those that have one say it themselves.
_READ = re.compile(rb"([0-9a-fA-F]{1,8})\r\n((?:event: .*\n)?data: (.*)\n\n)\r\n")


def event_in(read: bytes) -> bytes | None:
    """The data of its one event; None for any other read."""
    found = _READ.fullmatch(read)
    if found is None:
        return None
    begin, end = found.span(2)
    return (
        found[3] if int(found[1], 16) == end - begin and read.find(b"\r", begin, end) < 0 else None
    )
