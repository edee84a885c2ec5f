"""Every value that can be set, read off the model: its names, its kind, how to parse it.

The variable of `worker.lease_s` is LONGSTREAM_WORKER__LEASE_S. A variable is text and is
converted; a value of the file must already have the right type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from settings.model import Account, Family, Settings
from settings.wording import shown

PREFIX = "LONGSTREAM_"

_NOUNS = {"integer": "a whole number", "number": "a number", "string": "a text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of the configuration."""

    path: tuple[str, ...]
    owner: type[BaseModel]

    @property
    def name(self) -> str:
        """As in the file and in messages: `worker.lease_s`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return PREFIX + "__".join(self.path).upper()

    @property
    def default(self) -> Any:
        return self.owner.model_fields[self.path[-1]].default

    @property
    def meaning(self) -> str:
        return self.owner.model_fields[self.path[-1]].description or ""

    @property
    def kind(self) -> str:
        """In the user's words: `a whole number from 1 to 2000`."""
        return _kind(_schema(self.owner, self.path[-1]))

    def parse(self, value: object, *, is_text: bool) -> Any:
        """`value` with the setting's type, or ValueError with a message for the user."""
        try:
            parsed = _adapter(self.owner, self.path[-1]).validate_python(value, strict=not is_text)
        except ValidationError:
            parsed = None
        if parsed is None:
            raise ValueError(f"expected {self.kind}, got {shown(value)}")
        return parsed


def _settings_of(owner: type[BaseModel], path: tuple[str, ...]) -> Iterator[Setting]:
    for name, field in owner.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings_of(kind, (*path, name))
        elif _kind(_schema(owner, name)):
            yield Setting(path=(*path, name), owner=owner)


@cache
def _adapter(owner: type[BaseModel], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(owner.model_fields[name].rebuild_annotation())


@cache
def _schema(owner: type[BaseModel], name: str) -> dict[str, Any]:
    schema: dict[str, Any] = _adapter(owner, name).json_schema()
    for branch in schema.get("anyOf", ()):
        if branch.get("type") != "null":
            return dict(branch)
    return schema


def _kind(schema: dict[str, Any]) -> str:
    """The words for a plain value; nothing for tables, which are read elsewhere."""
    noun = _NOUNS.get(schema["type"], "")
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if "minLength" in schema:
        return f"{noun} that is not empty"
    low, above, high = (schema.get(k) for k in ("minimum", "exclusiveMinimum", "maximum"))
    if above is not None:
        return f"{noun} above {above}" + (f", at most {high}" if high is not None else "")
    words = [noun, f"from {low}" if low is not None else "", f"to {high}" if high else ""]
    return " ".join(filter(None, words))


#: Every setting that has a variable.
SETTINGS = tuple(_settings_of(Settings, ()))


def limits_of(account: str) -> tuple[Setting, ...]:
    """What `[accounts.NAME]` may hold; it has no variable."""
    found = _settings_of(Account, ("accounts", account))
    return tuple(setting for setting in found if setting.path[-1] != "name")


def limits_of_family(account: str, models: str) -> tuple[Setting, ...]:
    """What `[accounts.NAME.families."MODELS"]` may hold."""
    found = _settings_of(Family, ("accounts", account, "families", models))
    return tuple(setting for setting in found if setting.path[-1] != "models")
