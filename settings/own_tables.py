"""The file's tables whose entries are named by what they are about: `[prices]` and `[tenants]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from settings.budgets import Tenant
from settings.catalogue import Setting, price_settings, tenant_settings
from settings.file import Document, refuse_unknown
from settings.prices import Price
from settings.problems import Problems
from settings.wording import place, shown

_FIGURES = {"input", "cached_input", "output"}


def prices_in(document: Document, problems: Problems) -> dict[str, Price]:
    """The prices that could be read, by model or pattern, in the order of the file."""
    found = _tables(document, "prices", price_settings, problems)
    for model in found:
        if not document.get(("prices", model)).keys() & _FIGURES:
            where = place("prices", model)
            problems.add(f"{where}: has no figure: set input, cached_input or output")
    return {model: Price(**values) for model, values in found.items()}


def tenants_in(document: Document, problems: Problems) -> dict[str, Tenant]:
    """The budgets and shares of tenants that could be read."""
    found = _tables(document, "tenants", tenant_settings, problems)
    return {tenant: Tenant(**values) for tenant, values in found.items()}


def _tables(
    document: Document,
    section: str,
    settings_of: Callable[[str], Iterable[Setting]],
    problems: Problems,
) -> dict[str, dict[str, Any]]:
    found = {}
    for name, table in (document.get((section,)) or {}).items():
        where = place(section, name)
        if not isinstance(table, dict):
            problems.add(f"{where}: expected a table, got {shown(table)} ({document.name})")
            continue
        known = tuple(settings_of(name))
        fields = [setting.path[-1] for setting in known]
        refuse_unknown(table, fields, where, document.name, problems)
        found[name] = _values(known, table, document.name, problems)
    return found


def _values(
    known: Iterable[Setting], table: Mapping[str, Any], origin: str, problems: Problems
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in known:
        if setting.path[-1] in table:
            try:
                values[setting.path[-1]] = setting.parse(table[setting.path[-1]], is_text=False)
            except ValueError as error:
                problems.add(f"{setting.name}: {error} ({origin})")
    return values
