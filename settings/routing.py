"""Which model does a job that asks for none in particular: rules as data, and two models to choose.

`model = "auto"` sends what a rule matches to the lighter model, and everything else to the strong
one. The user's rules come first, the ones that ship with the product behind them.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from msgspec import Meta, Struct

AUTO = "auto"

_Text = Annotated[str, Meta(min_length=1)]


class Routing(Struct, frozen=True, kw_only=True):
    """The models that `auto` stands for."""

    light: Annotated[
        _Text | None, "The model for what a rule of `auto` matches; unset: no job is sent to one."
    ] = None
    strong: Annotated[_Text, "The model `auto` stands for where no rule matches."] = "gpt-5.5-codex"


class Route(Struct, frozen=True, kw_only=True):
    """One rule. What is empty matches everything; `efforts` has "" for a job that names none."""

    kinds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    max_input_tokens: int | None = None
    #: A model of its own; None: the lighter one.
    model: str | None = None


@cache
def shipped_routes() -> dict[str, Route]:
    """The rules of `routes.toml`, in their order."""
    import tomllib
    from importlib.resources import files

    import msgspec

    document = tomllib.loads(files("settings").joinpath("routes.toml").read_text("utf-8"))
    return {name: msgspec.convert(table, Route) for name, table in document.items()}
