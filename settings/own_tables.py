"""The file's tables whose entries are named by what they are about: prices, tenants,
routes and fallbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from settings.budgets import Tenant
from settings.catalogue import Setting, price_settings, tenant_settings
from settings.file import Document, refuse_unknown, values_in
from settings.prices import Price
from settings.problems import Problems
from settings.routing import Route
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


def routes_in(document: Document, problems: Problems) -> dict[str, Route]:
    """The user's rules, in the order of the file."""
    found = {}
    for name, table in (document.get(("routes",)) or {}).items():
        where = place("routes", name)
        if not isinstance(table, dict):
            problems.add(f"{where}: expected a table, got {shown(table)} ({document.name})")
            continue
        refuse_unknown(table, Route.__struct_fields__, where, document.name, problems)
        try:
            found[name] = msgspec.convert(table, Route)
        except msgspec.ValidationError as error:
            wrong = str(error).rpartition("$.")[2].rstrip("`").partition("[")[0]
            kind = "a whole number" if wrong == "max_input_tokens" else "text, or a list of texts"
            problems.add(f"{where}.{wrong}: expected {kind} ({document.name})")
    return found


def fallbacks_in(document: Document, problems: Problems) -> dict[str, tuple[str, ...]]:
    """The models to ask when one can not be had, by model or pattern."""
    found = {}
    for model, others in (document.get(("fallbacks",)) or {}).items():
        if isinstance(others, list) and others and all(isinstance(o, str) and o for o in others):
            found[model] = tuple(others)
        else:
            where = place("fallbacks", model)
            problems.add(f"{where}: expected a list of model names ({document.name})")
    return found


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
        found[name] = values_in(known, table, document.name, problems)
    return found
