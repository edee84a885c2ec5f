"""Prints settings as dotted TOML lines. It is given no secret, so it can show none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def as_toml(values: Mapping[str, Any]) -> str:
    """One `section.name = value` a line, in the order of `values`."""
    return "".join(f"{line}\n" for line in _lines("", values))


def _lines(prefix: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        place = f"{prefix}{_word(name)}"
        if isinstance(value, dict):
            yield from _lines(f"{place}.", value)
        else:
            yield f"{place} = {_value(value)}"


def _word(name: str) -> str:
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isalnum() and bare.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        entries = (f"{_word(name)} = {_value(entry)}" for name, entry in value.items())
        return f"{{ {', '.join(entries)} }}"
    return json.dumps(value, ensure_ascii=False)
