"""What a log consists of. One entry is one JSON document in the stream field `e`.

Beside it stands its check in the field `c`: a checksum of the document, chained over the attempt,
made by who wrote it. It lets `verify` name an entry that was changed, lost or moved.

Every entry carries `offset`: how many characters of text stand before it in the answer it
belongs to. So any single entry tells a reader how long its text is, without what came before.
Offsets and lengths count Unicode code points.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import StrEnum

import msgspec

FIELD = b"e"
CHECK = b"c"


class Mode(StrEnum):
    """Why an attempt exists, and what it does to the text before it."""

    START = "start"
    #: The same answer goes on, read again from the provider.
    REATTACH = "reattach"
    #: A new request goes on behind the text that is there.
    CONTINUE = "continue"
    #: A new answer from its first character.
    RESTART = "restart"
    #: A follow-up request behind an answer that was whole and could not be used as it is.
    REPAIR = "repair"
    #: Nobody runs the job any more; it is only being sealed.
    CLOSE = "close"


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """Usage as the provider billed it; `reasoning` is part of `output`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
        )


class Attempt(msgspec.Struct, frozen=True, tag="attempt", omit_defaults=True):
    """`N-0`: attempt N begins. `base` is the last entry that stays valid, `after` the last there
    was when it began."""

    mode: Mode
    base: str
    offset: int
    after: str = "0-0"
    worker: str = ""
    key: str = ""
    model: str = ""
    reason: str = ""


class Text(msgspec.Struct, frozen=True, tag="text"):
    offset: int
    text: str


class Thinking(msgspec.Struct, frozen=True, tag="thinking"):
    """`tokens`: reasoning tokens seen in this attempt so far, counted by delta."""

    offset: int
    tokens: int


class Note(msgspec.Struct, frozen=True, tag="note", omit_defaults=True):
    """Something a reader should know: `handed_back` and `repair`, with their reason; `file_ready`
    with the name of a file whose last character stands before it."""

    offset: int
    what: str
    reason: str = ""
    name: str = ""


class End(msgspec.Struct, frozen=True, tag="end", omit_defaults=True):
    """The seal. `offset` is the length of the clean text, `digest` its SHA-256."""

    offset: int
    outcome: str
    digest: str
    attempts: int
    reason: str = ""
    usage: Tokens | None = None


Entry = Attempt | Text | Thinking | Note | End

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
encode = msgspec.json.Encoder().encode


def decode(payload: bytes) -> Entry:
    return _decoder.decode(payload)


#: The check of `N-0`. The claim makes it in Lua, where this sum takes three lines.
check_of_first: Callable[[bytes], int] = zlib.adler32
#: The check of an entry whose predecessor in the same attempt has this one.
check_behind: Callable[[bytes, int], int] = zlib.crc32


def end_offset(entry: Entry) -> int:
    """How many characters of text stand up to and including `entry`."""
    return entry.offset + len(entry.text) if isinstance(entry, Text) else entry.offset
