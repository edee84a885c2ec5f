"""The file's `[prices]`: one table for each model or pattern of models."""

from __future__ import annotations

from typing import Any

from settings.catalogue import price_settings
from settings.file import Document, refuse_unknown
from settings.prices import Price
from settings.problems import Problems
from settings.wording import place, shown

_FIGURES = {"input", "cached_input", "output"}


def prices_in(document: Document, problems: Problems) -> dict[str, Price]:
    """The prices that could be read, in the order of the file."""
    prices = {}
    for model, table in (document.get(("prices",)) or {}).items():
        if not isinstance(table, dict):
            where = place("prices", model)
            problems.add(f"{where}: expected a table, got {shown(table)} ({document.name})")
        else:
            prices[model] = _price(model, table, document.name, problems)
    return prices


def _price(model: str, table: dict[str, Any], origin: str, problems: Problems) -> Price:
    known = price_settings(model)
    refuse_unknown(table, [s.path[-1] for s in known], place("prices", model), origin, problems)
    values: dict[str, Any] = {}
    for setting in known:
        if setting.path[-1] in table:
            try:
                values[setting.path[-1]] = setting.parse(table[setting.path[-1]], is_text=False)
            except ValueError as error:
                problems.add(f"{setting.name}: {error} ({origin})")
    if not table.keys() & _FIGURES:
        problems.add(f"{place('prices', model)}: has no figure: set input, cached_input or output")
    return Price(**values)
