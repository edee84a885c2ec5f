"""What is wrong with a query or a body, in words that say what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

#: A pattern is nothing that a person reads.
_BLANK = r"Expected `str` matching regex '\\S'"
#: One field of the whole, and a word that it can not be.
_CHOICE = re.compile(r"Invalid (?:enum )?value '.*' - at `\$\.(\w+)`", re.DOTALL)


def said_of(error: msgspec.ValidationError, kind: Any) -> str:
    """The error of decoding a `kind`; where only some words can be there, it names them."""
    said = str(error).replace(_BLANK, "Expected text that is not blank")
    found = _CHOICE.fullmatch(said)
    words = sorted(set(_words(inspect.type_info(kind), found[1]))) if found else []
    return f"{said}; expected one of {', '.join(words)}" if words else said


def unreadable(error: Exception) -> str:
    """What is no JSON at all."""
    said = str(error)
    # The decoder says it of half a character at the end of a text, too.
    return f"{said}, or has half a surrogate pair" if said == "Input data was truncated" else said


def _words(kind: inspect.Type, name: str) -> Iterator[str]:
    """What can be in the field `name`."""
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _words(each, name)
    elif isinstance(kind, inspect.StructType):
        if kind.tag_field == name:
            yield str(kind.tag)
        for field in kind.fields:
            if field.encode_name == name:
                yield from _choices(field.type)


def _choices(kind: inspect.Type) -> Iterator[str]:
    if isinstance(kind, inspect.EnumType):
        yield from (str(each.value) for each in kind.cls)
    elif isinstance(kind, inspect.LiteralType):
        yield from map(str, kind.values)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _choices(each)
