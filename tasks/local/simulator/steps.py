"""What a scenario asks of a connection, as values. A script is an iterable of steps.

A script starts with one `Head`, and ends cleanly when it is exhausted unless its last step is
an `Ending`. Every `Send` is one write and, under chunked framing, one HTTP chunk. The facts it
carries beside its bytes (`text`, tokens, `finish`) go to the ledger once it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

Headers = tuple[tuple[str, str], ...]


class Framing(StrEnum):
    """How the end of the body is told."""

    CHUNKED = "chunked"
    LENGTH = "length"
    CLOSE = "close"
    #: No body at all, as for 204.
    NONE = "none"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The status line and the headers. `length` counts with `Framing.LENGTH` only."""

    status: int = 200
    headers: Headers = ()
    framing: Framing = Framing.CHUNKED
    length: int = 0


class Pause(msgspec.Struct, frozen=True):
    """Silence, in seconds at speed 1."""

    seconds: float


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the body, written at once."""

    data: bytes
    text: str = ""
    text_tokens: int = 0
    thinking_tokens: int = 0
    finish: str = ""


class Raw(msgspec.Struct, frozen=True):
    """Bytes past the framing: the way to break it."""

    data: bytes


class Ending(StrEnum):
    """The ways to leave a connection that are not the clean one."""

    #: RST.
    RESET = "reset"
    #: FIN without the end that the framing promised.
    CUT = "cut"
    #: Nothing more, and no end, until the client leaves.
    HANG = "hang"


Step = Head | Pause | Send | Raw | Ending
Script = Iterator[Step]
