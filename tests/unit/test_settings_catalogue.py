from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from configuration import given

from settings import Settings
from settings.catalogue import SETTINGS, Setting, limits_of, price_settings, tenant_settings
from settings.environment import CONFIG, SIMULATOR_URL
from settings.keys import KEY_FIELDS
from settings.pairs import PAIRS

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"

#: Values that differ from the default and are legal together.
OTHERS: dict[str, Any] = {
    "redis_url": "redis://one",
    "broker_url": "redis://two",
    "result_url": "redis://three",
    "model": "other",
    "ca_bundle": __file__,
    "budget.action": "stop",
    "task_modules": "mine",
    "routing.light": "small",
    "routing.strong": "large",
    "worker.buffer_bytes": 65536,
    "worker.listen": "127.0.0.1:9464",
    "tracing.endpoint": "http://127.0.0.1:4318",
    "tracing.sample": 0.5,
    "gateway.host": "0.0.0.0",
    "gateway.tokens": "always",
    "gateway.hosts": "box.local",
    "gateway.max_body_bytes": 2048,
}


def shown_default(setting: Setting) -> str:
    return "-" if setting.default is None else f"`{setting.default}`"


def row(setting: Setting) -> str:
    names = f"| `{setting.variable}` | `{setting.name}` |"
    return f"{names} {setting.expected} | {shown_default(setting)} | {setting.meaning} |"


def limit_row(setting: Setting) -> str:
    return f"| `{setting.path[-1]}` | {setting.expected} | {setting.meaning} |"


def rows_of(heading: str) -> list[str]:
    """The rows of the table under `heading`, without its two header lines."""
    section = DOCS.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_the_documentation_lists_every_setting_as_the_model_has_it() -> None:
    assert rows_of("Every setting") == [row(setting) for setting in SETTINGS]


def test_the_documentation_lists_every_limit_of_an_account() -> None:
    assert rows_of("Accounts") == [limit_row(setting) for setting in limits_of("NAME")]
    assert rows_of("Budgets") == [limit_row(setting) for setting in tenant_settings("NAME")]
    assert rows_of("Prices") == [limit_row(setting) for setting in price_settings("NAME")]


def test_the_documentation_names_what_else_can_be_set() -> None:
    text = DOCS.read_text("utf-8")
    pairs = [f"{name.upper()}_{half}" for name in PAIRS for half in ("API_KEY", "BASE_URL")]

    for name in (CONFIG, SIMULATOR_URL, *pairs, *KEY_FIELDS):
        assert f"`{name}`" in text


def test_the_examples_of_the_documentation_load() -> None:
    blocks = DOCS.read_text("utf-8").split("```toml\n")[1:]
    assert blocks

    for block in blocks:
        settings = given(block.split("```")[0], {"ACME_KEY_1": "sk-1", "ACME_KEY_2": "sk-2"})
        assert settings.pools


def test_every_field_of_the_model_can_be_set_or_is_a_named_table() -> None:
    tops = {setting.path[0] for setting in SETTINGS}

    assert set(Settings.__struct_fields__) == tops | {
        "pools",
        "accounts",
        "prices",
        "routes",
        "fallbacks",
        "tenants",
    }


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_a_meaning_and_is_read_from_its_variable(setting: Setting) -> None:
    value = OTHERS.get(setting.name, 3)
    environ = {setting.variable: str(value), "LONGSTREAM_REDIS_URL": "redis://one"}
    if setting.name in {"worker.lease_s", "retention.record_s"}:
        environ |= {"LONGSTREAM_WORKER__RENEW_S": "1", "LONGSTREAM_RETENTION__LOG_S": "1"}

    found: Any = given(environ=environ)
    for name in setting.path:
        found = getattr(found, name)

    assert found == value
    assert setting.meaning
