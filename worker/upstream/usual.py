"""The read that nearly all are: one whole chunk of a body, and in it one whole data line.

One pattern knows it; framing and decoder, between two chunks and two events, would make the same of
it in four times the time. Anything else is theirs.
"""

from __future__ import annotations

import re

_READ = re.compile(rb"([0-9a-fA-F]{1,8})\r\ndata: (.*)\n\n\r\n")
#: What stands in the chunk beside the data: the field's name, and the end of line and event.
_AROUND = len(b"data: \n\n")


def event_in(read: bytes) -> bytes | None:
    """The data of its one event; None for any other read."""
    found = _READ.fullmatch(read)
    if found is None:
        return None
    data: bytes = found[2]
    return data if int(found[1], 16) == len(data) + _AROUND and b"\r" not in data else None
