"""Amounts as the command line takes them: numbers of tokens, and money."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import click

_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_MOST = 10**15
_MOST_USD = 10**9


class _Count(click.ParamType):  # type: ignore[type-arg]
    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().replace("_", "").replace(",", "").lower()
        unit = _UNITS.get(text[-1:], 1)
        try:
            count = Decimal(text[:-1] if text[-1:] in _UNITS else text) * unit
        except InvalidOperation:
            count = Decimal(-1)
        if not (count.is_finite() and 0 <= count <= _MOST and count % 1 == 0):
            self.fail(f"expected a number of tokens such as 250000, 250k or 1.5M, got {value!r}")
        return int(count)


class _Usd(click.ParamType):  # type: ignore[type-arg]
    name = "usd"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Decimal:
        try:
            amount = Decimal(str(value).strip().lstrip("$"))
        except InvalidOperation:
            amount = Decimal(0)
        if not (amount.is_finite() and 0 < amount <= _MOST_USD):
            self.fail(f"expected an amount of USD such as 2.50, got {value!r}")
        return amount


COUNT = _Count()
USD = _Usd()
