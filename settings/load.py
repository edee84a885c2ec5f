"""Builds the settings from the environment and an optional TOML file.

The file is LONGSTREAM_CONFIG, else `longstream.toml` in the working directory, else none. A
variable wins over the file. Keys come from one place: the pools of the file if it has any, else
the pairs OPENAI_API_KEY + OPENAI_BASE_URL and HOLYSHEEP_API_KEY + HOLYSHEEP_BASE_URL, else the
simulator if LONGSTREAM_SIMULATOR_URL is set. With none of them there are no pools, and that is
legal here. Everything wrong is reported at once, in one SettingsError that shows no secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from settings.budgets import Budget
from settings.catalogue import SETTINGS, Setting
from settings.environment import CONFIG, refuse_misspelt, set_variables
from settings.file import Document, read
from settings.keys import SIMULATED_SECRET
from settings.model import (
    Account,
    Clocks,
    GatewaySettings,
    Pool,
    Retention,
    Settings,
    Tracing,
    WorkerSettings,
)
from settings.own_tables import fallbacks_in, prices_in, routes_in, tenants_in
from settings.pairs import PAIRS, pools_of_pairs, pools_of_simulator
from settings.pools import accounts_in, complete_accounts, pools_in
from settings.problems import SECRET_CHARS, Problems
from settings.routing import Routing
from settings.urls import base_url, redis_url

_URLS = ("redis_url", "broker_url", "result_url")


def load(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """The settings of this process, or SettingsError with every problem there is."""
    environ = set_variables(os.environ if environ is None else environ)
    cwd = Path.cwd() if cwd is None else cwd
    problems = Problems()
    for name in PAIRS:
        problems.hide(environ.get(f"{name.upper()}_API_KEY", ""))
    refuse_misspelt(environ, problems)
    document = read(environ.get(CONFIG), cwd, problems)
    values = _values(environ, cwd, document, problems)
    pools, accounts = _keys(document, environ, problems)
    own: dict[str, Any] = {}
    if document is not None:
        readers = {
            "prices": prices_in,
            "tenants": tenants_in,
            "routes": routes_in,
            "fallbacks": fallbacks_in,
        }
        own = {name: read_own(document, problems) for name, read_own in readers.items()}
    problems.raise_any()
    settings = _build(values, pools=pools, accounts=accounts, **own)
    _check_secrets(settings, problems)
    problems.raise_any()
    return settings


def _build(values: dict[str, Any], **tables: Any) -> Settings:
    sections = {
        "clocks": Clocks,
        "worker": WorkerSettings,
        "retention": Retention,
        "routing": Routing,
        "budget": Budget,
        "gateway": GatewaySettings,
        "tracing": Tracing,
    }
    built = {name: kind(**values.get(name, {})) for name, kind in sections.items()}
    return Settings(**{**values, **built, **tables})


def _values(
    environ: Mapping[str, str], cwd: Path, document: Document | None, problems: Problems
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        given = _given(setting, environ, cwd, document)
        if given is not None:
            try:
                _put(values, setting.path, given.parsed(setting))
            except ValueError as error:
                problems.add(f"{setting.name}: {error} ({given.origin})")
    _check_durations(values, problems)
    _complete_urls(values, problems)
    return values


class _Given(Struct, frozen=True):
    """A value as the user wrote it, and where."""

    value: object
    origin: str
    folder: Path
    is_text: bool

    def parsed(self, setting: Setting) -> Any:
        value = setting.parse(self.value, is_text=self.is_text)
        if setting.name == "tracing.endpoint":
            return base_url(value)
        if setting.name in _URLS:
            return redis_url(value)
        return str(self._existing(value)) if setting.name == "ca_bundle" else value

    def _existing(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
        return path


def _given(
    setting: Setting, environ: Mapping[str, str], cwd: Path, document: Document | None
) -> _Given | None:
    if setting.variable in environ:
        return _Given(environ[setting.variable], setting.variable, cwd, is_text=True)
    value = document.get(setting.path) if document else None
    if document is None or value is None:
        return None
    return _Given(value, document.name, document.folder, is_text=False)


def _put(values: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    *sections, name = path
    for section in sections:
        values = values.setdefault(section, {})
    values[name] = value


def _check_durations(values: dict[str, Any], problems: Problems) -> None:
    worker = WorkerSettings(**values.get("worker", {}))
    if worker.lease_s <= 2 * worker.renew_s:
        problems.add(
            f"worker.lease_s: expected more than twice worker.renew_s ({worker.renew_s:g}),"
            f" so that one lost renewal ends no stream, got {worker.lease_s:g}"
        )
    kept = Retention(**values.get("retention", {}))
    if kept.record_s < kept.log_s:
        problems.add(
            f"retention.record_s: expected at least retention.log_s ({kept.log_s}),"
            f" since the record outlives the log, got {kept.record_s}"
        )


def _complete_urls(values: dict[str, Any], problems: Problems) -> None:
    """Broker and results are on the same server unless said otherwise."""
    server = values.get("redis_url")
    for name in ("broker_url", "result_url"):
        if server is None and name in values:
            problems.add(f"{name}: set without redis_url, which holds the logs: set redis_url too")
        elif server is not None:
            values.setdefault(name, server)


def _keys(
    document: Document | None, environ: Mapping[str, str], problems: Problems
) -> tuple[dict[str, Pool], dict[str, Account]]:
    if document is None:
        return {}, {}
    accounts = accounts_in(document, problems)
    if document.get(("pools",)):
        pools = pools_in(document, environ, problems)
    else:
        pools = pools_of_pairs(environ, problems) or pools_of_simulator(environ, problems)
    return pools, complete_accounts(pools, accounts)


def _check_secrets(settings: Settings, problems: Problems) -> None:
    """A secret pasted into a second place would be shown there."""
    shown = settings.describe()
    for pool in settings.pools.values():
        for key in pool.keys:
            secret = key.secret.get_secret_value()
            if len(secret) >= SECRET_CHARS and secret != SIMULATED_SECRET and secret in shown:
                problems.add(f"key {key.alias!r}: its secret also stands in another setting")
