"""The file's `[pools]` and `[accounts]`, and what must hold between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from settings.catalogue import limits_of, limits_of_family
from settings.file import Document, refuse_unknown, values_in
from settings.keys import KeyTable
from settings.model import ROLLING_DAY, Account, Family, Pool
from settings.problems import Problems
from settings.wording import NAME_RULE, did_you_mean, is_name, place, shown


def accounts_in(document: Document, problems: Problems) -> dict[str, Account]:
    """The accounts of the file, with the limits that could be read."""
    tables = _named_tables("accounts", document, problems)
    return {name: _account(name, table, document.name, problems) for name, table in tables}


def _account(name: str, table: Mapping[str, Any], origin: str, problems: Problems) -> Account:
    known = [*(setting.path[-1] for setting in limits_of(name)), "families"]
    refuse_unknown(table, known, f"accounts.{name}", origin, problems)
    values = values_in(limits_of(name), table, origin, problems)
    zone = values.get("day_zone", "UTC")
    if not _is_zone(zone):
        problems.add(f"accounts.{name}.day_zone: there is no time zone {shown(zone)} ({origin})")
    return Account(name=name, families=_families(name, table, origin, problems), **values)


def _families(
    account: str, table: Mapping[str, Any], origin: str, problems: Problems
) -> tuple[Family, ...]:
    where = f"accounts.{account}.families"
    tables = table.get("families", {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        problems.add(f'{where}: expected one [{where}."MODELS"] for each family ({origin})')
        return ()
    found = []
    for models, limits in tables.items():
        known = limits_of_family(account, models)
        refuse_unknown(limits, [s.path[-1] for s in known], f"{where}.{models}", origin, problems)
        found.append(Family(models=models, **values_in(known, limits, origin, problems)))
    return tuple(found)


def _is_zone(name: str) -> bool:
    if name in ("UTC", ROLLING_DAY):
        return True
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def pools_in(document: Document, environ: Mapping[str, str], problems: Problems) -> dict[str, Pool]:
    """The pools of the file that could be read, in its order."""
    pools: dict[str, Pool] = {}
    found: list[tuple[str, KeyTable]] = []
    for name, table in _named_tables("pools", document, problems):
        refuse_unknown(table, ("models", "keys"), f"pools.{name}", document.name, problems)
        models = _models(name, table, document.name, problems)
        entries = _key_tables(name, table, document.name, problems)
        found += [(name, entry) for entry in entries]
        keys = [key for entry in entries if (key := entry.read(environ)) is not None]
        pools[name] = Pool(name=name, models=models, keys=tuple(keys))
    _check_aliases(found, problems)
    _check_accounts(found, document, problems)
    return pools


def _check_aliases(found: list[tuple[str, KeyTable]], problems: Problems) -> None:
    for alias, times in Counter(key.alias for _, key in found).items():
        if alias is not None and times > 1:
            problems.add(f"key {alias!r}: {times} keys have this alias, and it must be unique")


def _check_accounts(
    found: list[tuple[str, KeyTable]], document: Document, problems: Problems
) -> None:
    users: dict[str, dict[str, None]] = {}
    for pool, key in found:
        if key.account is not None:
            users.setdefault(key.account, {})[pool] = None
    for account, pools in users.items():
        if len(pools) > 1:
            problems.add(
                f"account {account!r}: keys of the pools {', '.join(pools)} use it; its limits"
                " live beside one pool's waiting line, so give each pool its own account"
            )
    for account in document.get(("accounts",)) or {}:
        if account not in users and is_name(account):
            hint = did_you_mean(account, users)
            problems.add(f"accounts.{account}: no key uses this account{hint} ({document.name})")


def _models(
    name: str, table: Mapping[str, Any], origin: str, problems: Problems
) -> tuple[str, ...]:
    models = table.get("models", ["*"])
    if isinstance(models, list) and models and all(isinstance(m, str) and m for m in models):
        return tuple(models)
    problems.add(f"pools.{name}.models: expected a list of model names or patterns ({origin})")
    return ("*",)


def _key_tables(
    name: str, table: Mapping[str, Any], origin: str, problems: Problems
) -> list[KeyTable]:
    where = f"pools.{name}.keys"
    entries = table.get("keys", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        problems.add(f"{where}: expected one [[{where}]] for each key ({origin})")
        return []
    if not entries:
        problems.add(f"pools.{name}: has no key, add one under [[{where}]] ({origin})")
    return [
        KeyTable(entry, f"{where}[{number}]", origin, problems)
        for number, entry in enumerate(entries, 1)
    ]


def _named_tables(
    section: str, document: Document, problems: Problems
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, table in (document.get((section,)) or {}).items():
        where = place(section, name)
        if not is_name(name):
            problems.add(f"{where}: expected a name of {NAME_RULE} ({document.name})")
        elif not isinstance(table, dict):
            problems.add(f"{where}: expected a table, got {shown(table)} ({document.name})")
        else:
            yield name, table


def complete_accounts(
    pools: Mapping[str, Pool], accounts: Mapping[str, Account]
) -> dict[str, Account]:
    """`accounts`, and one without limits for each other account that a key names."""
    named = [key.account for pool in pools.values() for key in pool.keys]
    return {**{name: Account(name=name) for name in named}, **accounts}
