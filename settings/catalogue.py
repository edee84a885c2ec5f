"""Every value that can be set, read off the model: its names, its kind, how to parse it.

The variable of `worker.lease_s` is LONGSTREAM_WORKER__LEASE_S. A variable is text and is
converted; a value of the file must already have the right type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from settings.budgets import Tenant
from settings.model import Account, Family, Settings
from settings.prices import Price
from settings.wording import shown

PREFIX = "LONGSTREAM_"

_NOUNS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the configuration: a field of `owner`."""

    path: tuple[str, ...]
    owner: type[msgspec.Struct]
    default: Any

    @property
    def kind(self) -> Any:
        """The model's annotation. Worked out when a value is given: most processes set a few."""
        return _kinds(self.owner)[self.path[-1]]

    @property
    def name(self) -> str:
        """As in the file and in messages: `worker.lease_s`."""
        return ".".join(self.path)

    @property
    def variable(self) -> str:
        return PREFIX + "__".join(self.path).upper()

    @property
    def meaning(self) -> str:
        return next((part for part in _parts(self.kind) if isinstance(part, str)), "")

    @property
    def expected(self) -> str:
        """The kind in the user's words: `a whole number from 1 to 2000`."""
        if words := _words(self.kind):
            return f"one of {', '.join(words)}"
        noun = next(_NOUNS[kind] for kind in _plain_types(self.kind))
        for rule in _rules(self.kind):
            if rule.min_length is not None:
                return f"{noun} that is not empty"
            if rule.gt is not None:
                return f"{noun} above {rule.gt}, at most {rule.le}"
            if rule.ge is not None:
                return f"{noun} from {rule.ge} to {rule.le}"
        return noun

    def parse(self, value: object, *, is_text: bool) -> Any:
        """`value` with the setting's type, or ValueError with a message for the user."""
        given = value.strip() if is_text and isinstance(value, str) else value
        try:
            parsed = msgspec.convert(given, self.kind, strict=not is_text)
        except (msgspec.ValidationError, ValueError):
            parsed = None
        if parsed is None:
            raise ValueError(f"expected {self.expected}, got {shown(value)}")
        return parsed


def _parts(kind: Any) -> Iterator[Any]:
    """The types, rules and words an annotation is made of."""
    found = get_args(kind)
    if not found or get_origin(kind) is Literal:
        yield kind
        return
    for part in found:
        yield from _parts(part)


def _words(kind: Any) -> tuple[str, ...]:
    """The texts a choice consists of."""
    return next((get_args(p) for p in _parts(kind) if get_origin(p) is Literal), ())


def _plain_types(kind: Any) -> list[type]:
    return [part for part in _parts(kind) if isinstance(part, type) and part in _NOUNS]


def _rules(kind: Any) -> list[msgspec.Meta]:
    return [part for part in _parts(kind) if isinstance(part, msgspec.Meta)]


@cache
def _kinds(owner: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _settings_of(owner: type[msgspec.Struct], path: tuple[str, ...]) -> Iterator[Setting]:
    """A default that is a struct is a section, one that can be filled a table; a field without one
    is how a table's entry is called."""
    names, defaults = owner.__struct_fields__, owner.__struct_defaults__
    needed = (msgspec.NODEFAULT,) * (len(names) - len(defaults))
    for name, default in zip(names, needed + defaults, strict=True):
        if isinstance(default, msgspec.Struct):
            yield from _settings_of(type(default), (*path, name))
        elif default is None or isinstance(default, bool | int | float | str):
            yield Setting(path=(*path, name), owner=owner, default=default)


#: Every setting that has a variable.
SETTINGS = tuple(_settings_of(Settings, ()))

_OF_ACCOUNT = tuple(_settings_of(Account, ()))
_OF_FAMILY = tuple(_settings_of(Family, ()))
_OF_PRICE = tuple(_settings_of(Price, ()))
_OF_TENANT = tuple(_settings_of(Tenant, ()))


def limits_of(account: str) -> tuple[Setting, ...]:
    """What `[accounts.NAME]` may hold; it has no variable."""
    return _under(("accounts", account), _OF_ACCOUNT)


def limits_of_family(account: str, models: str) -> tuple[Setting, ...]:
    """What `[accounts.NAME.families."MODELS"]` may hold."""
    return _under(("accounts", account, "families", models), _OF_FAMILY)


def tenant_settings(tenant: str) -> tuple[Setting, ...]:
    """What `[tenants."NAME"]` may hold."""
    return _under(("tenants", tenant), _OF_TENANT)


def price_settings(models: str) -> tuple[Setting, ...]:
    """What `[prices."MODELS"]` may hold."""
    return _under(("prices", models), _OF_PRICE)


def _under(place: tuple[str, ...], settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return tuple(replace(setting, path=place + setting.path) for setting in settings)
