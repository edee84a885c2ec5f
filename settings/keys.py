"""One key: its base_url and its secret, checked together, never shown.

A key is known by its alias. A secret reaches no message, not even when it is malformed or stands
in the wrong place; the name of a variable is repeated only when it looks like one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from settings.file import refuse_unknown
from settings.model import SIMULATOR, Key
from settings.problems import Problems
from settings.profiles import APIS, PROFILES, Api
from settings.secret import Secret
from settings.urls import base_url, provider_at, travels_in_clear
from settings.wording import NAME_RULE, did_you_mean, is_name

#: What the simulator is sent: it may travel in clear, since it opens nothing.
SIMULATED_SECRET = "simulated"  # noqa: S105

KEY_FIELDS = ("alias", "provider", "base_url", "secret", "secret_env", "account", "api")

#: What an HTTP header can carry, without the characters that would end or split it.
_SECRET = re.compile(r"[!-~]+")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


class KeyDraft(Struct, frozen=True, kw_only=True):
    """A key as it was found. `who` is how messages call it, `origin` where it stands."""

    who: str
    alias: str
    provider: str
    base_url: str
    secret: str
    account: str
    origin: str
    api: Api | None = None

    def __repr__(self) -> str:
        return f"KeyDraft({self.who!r})"

    def checked(self, problems: Problems) -> Key | None:
        """The key, or None and the problems that forbid it."""
        faults = [fault for fault in (self._url_fault(), self._secret_fault()) if fault]
        for fault in faults:
            problems.add(f"{self.who}: {fault} ({self.origin})")
        if faults:
            return None
        return Key(
            alias=self.alias,
            provider=self.provider,
            base_url=base_url(self.base_url),
            secret=Secret(self.secret),
            account=self.account,
            api=self.api,
        )

    def _url_fault(self) -> str | None:
        try:
            url = base_url(self.base_url)
        except ValueError as error:
            return f"base_url: {error}"
        is_simulated = self.provider == SIMULATOR and self.secret == SIMULATED_SECRET
        if travels_in_clear(url) and not is_simulated:
            return "base_url: http would send the secret in clear, use https"
        owner = provider_at(url)
        if owner not in {None, self.provider} and self.provider != "generic":
            return (
                f"base_url: this is the address of {owner}, which must not receive"
                f" a key of {self.provider}"
            )
        return None

    def _secret_fault(self) -> str | None:
        if _SECRET.fullmatch(self.secret):
            return None
        return "its secret holds white space or characters that no HTTP header can carry"


class KeyTable:
    """One `[[pools.NAME.keys]]` of the file."""

    def __init__(
        self, table: Mapping[str, Any], where: str, origin: str, problems: Problems
    ) -> None:
        self._table = table
        self._origin = origin
        self._problems = problems
        self._who = where
        #: None: it has none that could be used, which `read` reports.
        self.alias = self._usable_name("alias")
        self.account = self._usable_name("account") if "account" in table else self.alias

    def read(self, environ: Mapping[str, str]) -> Key | None:
        """The key, or None and the problems that forbid it."""
        self._check_names()
        provider = self._provider()
        url = self._base_url(provider) if provider else None
        secret = self._secret(environ)
        if not (self.alias and self.account and provider and url and secret):
            return None
        draft = KeyDraft(
            who=self._who,
            alias=self.alias,
            provider=provider,
            base_url=url,
            secret=secret,
            account=self.account,
            origin=self._origin,
            api=self._api(),
        )
        return draft.checked(self._problems)

    def _usable_name(self, field_name: str) -> str | None:
        name = self._table.get(field_name)
        return name if isinstance(name, str) and is_name(name) else None

    def _check_names(self) -> None:
        if self.alias is not None:
            self._who = f"key {self.alias!r}"
        elif "alias" not in self._table:
            self._wrong("has no alias")
        for name in ("alias", "account"):
            if name in self._table and self._usable_name(name) is None:
                self._wrong(f"{name}: expected a name of {NAME_RULE}")
        refuse_unknown(self._table, KEY_FIELDS, self._who, self._origin, self._problems)

    def _wrong(self, what: str) -> None:
        self._problems.add(f"{self._who}: {what} ({self._origin})")

    def _text(self, name: str) -> str | None:
        value = self._table.get(name)
        if value is None or (isinstance(value, str) and value):
            return value
        self._wrong(f"{name}: expected a text that is not empty")
        return None

    def _provider(self) -> str | None:
        known = ", ".join(PROFILES)
        provider = self._text("provider")
        if provider in PROFILES:
            return provider
        if "provider" not in self._table:
            self._wrong(f"has no provider: one of {known}")
        elif provider is not None:
            self._wrong(f"unknown provider{did_you_mean(provider, PROFILES)} (one of {known})")
        return None

    def _api(self) -> Api | None:
        api = self._table.get("api")
        for known in APIS:
            if api == known:
                return known
        if "api" in self._table:
            self._wrong(f"api: expected one of {', '.join(APIS)}")
        return None

    def _base_url(self, provider: str) -> str | None:
        default = PROFILES[provider].base_url
        if "base_url" not in self._table and default is None:
            self._wrong(f"has no base_url, and the provider {provider!r} has no default")
        return self._text("base_url") if "base_url" in self._table else default

    def _secret(self, environ: Mapping[str, str]) -> str | None:
        self._problems.hide(str(self._table.get("secret", "")))
        if ("secret" in self._table) == ("secret_env" in self._table):
            self._wrong("needs exactly one of secret and secret_env")
            return None
        if "secret" in self._table:
            return self._text("secret")
        variable = self._text("secret_env")
        if variable is None:
            return None
        if variable in environ:
            self._problems.hide(environ[variable])
            return environ[variable]
        named = variable if _VARIABLE.fullmatch(variable) else "that its secret_env names"
        self._wrong(f"the variable {named} is not set or empty")
        return None
