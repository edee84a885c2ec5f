"""Loads settings from a given file text and given variables, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from settings import Settings, SettingsError, load

#: A file with one sound key, to which tests add what they are about.
ONE_KEY = """
[[pools.default.keys]]
alias = "main"
provider = "openai"
secret = "sk-0123456789abcdef"
"""


def given(toml: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings in an empty folder that holds `toml`, under `environ` alone."""
    with TemporaryDirectory() as folder:
        if toml is not None:
            Path(folder, "longstream.toml").write_text(toml, "utf-8")
        return load(environ or {}, Path(folder))


def problems_of(
    toml: str | None = None, environ: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Every problem that loading reports; none when it succeeds."""
    try:
        given(toml, environ)
    except SettingsError as error:
        return error.problems
    return ()
