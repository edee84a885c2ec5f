"""Reads the TOML file: finds it, parses it, and refuses names it does not know.

What the values mean is decided elsewhere; here a table is known to be a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from settings.catalogue import SETTINGS, Setting
from settings.problems import Problems
from settings.wording import did_you_mean, place, shown

DEFAULT_NAME = "longstream.toml"

#: Tables whose entries the user names, read by `settings.pools` and `own_tables`.
NAMED_TABLES = ("accounts", "pools", "prices", "tenants", "routes", "fallbacks")

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class Document(Struct, frozen=True, kw_only=True):
    """A parsed file. `name` is how messages call it; relative paths in it start at `folder`."""

    name: str
    folder: Path
    values: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Document({self.name!r})"

    def get(self, path: Iterable[str]) -> Any:
        """The value at `path`, or None."""
        found: Any = self.values
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found


def read(named: str | None, cwd: Path, problems: Problems) -> Document | None:
    """The file `named`, else the default one, else an empty document. None: it is unusable."""
    path = cwd / (named or DEFAULT_NAME)
    document = Document(name=named or DEFAULT_NAME, folder=path.parent)
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        if named is None:
            return document
        problems.add(f"LONGSTREAM_CONFIG: there is no file {named}")
        return None
    except UnicodeDecodeError:
        problems.add(f"{document.name}: is not UTF-8 text")
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no path"
        problems.add(f"{document.name}: cannot be read: {reason}")
        return None
    values = _parse(text, document.name, problems)
    return None if values is None else _checked(values, document, problems)


def _parse(text: str, name: str, problems: Problems) -> dict[str, Any] | None:
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        problems.add(f"{name}: is nested too deeply")
    except ValueError as error:
        said = str(error)
        found = _PLACE.search(said)
        line = found[1] if found and found[1] else str(text.count("\n") + 1)
        what = f": {_PLACE.sub('', said)}" if found else ""
        problems.add(f"{name}, line {line}: is not valid TOML{what}")
    return None


def _checked(values: dict[str, Any], document: Document, problems: Problems) -> Document:
    sections = {setting.path[0] for setting in SETTINGS if len(setting.path) > 1}
    known = {setting.path[0] for setting in SETTINGS} | set(NAMED_TABLES)
    refuse_unknown(values, known, "", document.name, problems)
    usable = dict(values)
    for name in sections | set(NAMED_TABLES):
        table = values.get(name, {})
        if not isinstance(table, dict):
            problems.add(f"{name}: expected a table, got {shown(table)} ({document.name})")
            del usable[name]
        elif name in sections:
            fields = {setting.path[1] for setting in SETTINGS if setting.path[0] == name}
            refuse_unknown(table, fields, name, document.name, problems)
    return Document(name=document.name, folder=document.folder, values=usable)


def refuse_unknown(
    table: Mapping[str, Any], known: Iterable[str], where: str, origin: str, problems: Problems
) -> None:
    """A problem for each name of `table` that is not known: a typo must not go unseen."""
    known = sorted(known)
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known)
            problems.add(
                f"{f'{where}.' if where else ''}{place(name)}: unknown setting{hint} ({origin})"
            )


def values_in(
    known: Iterable[Setting], table: Mapping[str, Any], origin: str, problems: Problems
) -> dict[str, Any]:
    """What `table` says of each of `known`, by field, as far as it can be read."""
    values: dict[str, Any] = {}
    for setting in known:
        if setting.path[-1] in table:
            try:
                values[setting.path[-1]] = setting.parse(table[setting.path[-1]], is_text=False)
            except ValueError as error:
                problems.add(f"{setting.name}: {error} ({origin})")
    return values
