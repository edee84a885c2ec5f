"""Prints settings as dotted TOML lines: secrets as stars, Redis URLs masked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from settings.urls import masked


def described(settings: object) -> str:
    """One `section.name = value` a line. What is None is left out."""
    return "".join(f"{line}\n" for line in _lines("", _shape(settings)))


def _shape(value: Any) -> Any:
    """Plain data of `value`, each named entry without the name it stands under."""
    if isinstance(value, Struct):
        found = {name: getattr(value, name) for name in value.__struct_fields__}
        shown = ((name, _masked(name, part)) for name, part in found.items())
        return {name: _shape(part) for name, part in shown if part is not None and name != "name"}
    if isinstance(value, Mapping):
        return {name: _shape(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_shape(part) for part in value]
    return value if isinstance(value, str | int | float) else repr(value)


def _masked(name: str, value: Any) -> Any:
    hidden = name in {"redis_url", "broker_url", "result_url"} and isinstance(value, str)
    return masked(value) if hidden else value


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
