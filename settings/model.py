"""The shape of the settings: frozen, typed, every default with its unit and meaning.

Neither `repr` nor `str` nor a dump of a settings object shows a secret, and a dump masks the
passwords of Redis URLs: it is for people, and `model_copy` is for changes. A key's base_url and
secret are one value and travel together.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from settings.describe import as_toml
from settings.errors import SettingsError
from settings.profiles import PROFILES, Api, Dialect, Profile
from settings.urls import masked

#: No duration of one request or lease is longer; a larger number is a wrong unit.
_DAY_S = 86_400
_TEN_YEARS_S = 3_650 * _DAY_S

#: The provider, alias and pool that stand in when no real key is configured.
SIMULATOR = "simulator"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _limit(meaning: str) -> Any:
    return Field(default=None, ge=1, le=10**12, description=meaning)


class Account(_Frozen):
    """The owner of the limits. None means: no limit known."""

    name: str
    streams: int | None = _limit("Streams open at once.")
    requests_per_minute: int | None = _limit("Requests a minute.")
    tokens_per_minute: int | None = _limit("Tokens a minute.")
    requests_per_day: int | None = _limit("Requests a day.")


class Key(_Frozen):
    """One provider credential with its base_url; everywhere else it is its alias."""

    alias: str
    provider: str
    base_url: str
    secret: SecretStr
    account: str
    api: Api = "chat"

    @property
    def profile(self) -> Profile:
        """The provider's profile, speaking the API this key is used with."""
        dialect: Dialect = "chat" if self.api == "chat" else "responses"
        background = self.api == "background"
        return replace(PROFILES[self.provider], dialect=dialect, background=background)


class Pool(_Frozen):
    """The keys that can serve a model. `models` are shell patterns, matched with case."""

    name: str
    models: tuple[str, ...] = ("*",)
    keys: tuple[Key, ...]

    def serves(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


def _seconds(default: float | None, meaning: str) -> Any:
    return Field(default=default, gt=0, le=_DAY_S, allow_inf_nan=False, description=meaning)


class Clocks(_Frozen):
    """Time limits of one upstream request, in seconds.

    `read_s` bounds one socket read; the idle clocks bound what the reads bring: `bytes_idle_s`
    any byte, `progress_idle_s` a parsed event (comments do not count). `total_s` None: no limit.
    """

    connect_s: float = _seconds(10.0, "To open a connection, TLS included.")
    write_s: float = _seconds(10.0, "To send one piece of a request.")
    pool_s: float = _seconds(10.0, "To wait for a free connection.")
    read_s: float = _seconds(600.0, "One read from the socket.")
    headers_s: float = _seconds(600.0, "From the request sent to the answer's headers.")
    bytes_idle_s: float = _seconds(120.0, "Without any byte of the answer.")
    progress_idle_s: float = _seconds(300.0, "Without a parsed event; comments do not count.")
    total_s: float | None = _seconds(None, "The whole request; unset: no limit.")


class WorkerSettings(_Frozen):
    """What one worker process runs with; every duration in seconds."""

    #: One more waiting thread each; CPU per delta is the real limit.
    concurrency: int = Field(default=100, ge=1, le=2000, description="Streams of one process.")
    lease_s: float = _seconds(15.0, "A lease ends this long after its last renewal.")
    renew_s: float = _seconds(5.0, "Between renewals; the lease must last over two of them.")
    handoff_s: float = _seconds(
        10.0, "From grant to claim: covers one publish and one fetch over the broker."
    )
    drain_s: float = Field(
        default=30.0,
        ge=0,
        le=_DAY_S,
        allow_inf_nan=False,
        description="How long a stopping worker lets its streams finish before it hands them over.",
    )
    buffer_bytes: int = Field(
        default=8 * 2**20,
        ge=2**16,
        le=2**30,
        description="Undelivered text one stream holds while Redis does not answer; "
        "then it stops reading.",
    )
    max_crashes: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="A job whose workers die this often fails: it is the cause itself.",
    )
    max_attempts: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Interruptions and retries of one job before it fails.",
    )


def _kept(default: int, meaning: str) -> Any:
    return Field(default=default, ge=1, le=_TEN_YEARS_S, description=meaning)


class Retention(_Frozen):
    """How long an ended job is kept, in seconds: first its log goes, then its record."""

    log_s: int = _kept(7 * _DAY_S, "The log of an ended job: every delta.")
    record_s: int = _kept(30 * _DAY_S, "Its record with the result; not shorter than the log.")


class Settings(_Frozen):
    """Everything longstream runs with. Build it with `settings.load`."""

    redis_url: str | None = Field(
        default=None, repr=False, description="Unset: the embedded stack's private server."
    )
    broker_url: str | None = Field(
        default=None, repr=False, description="Celery's broker; unset: the same as redis_url."
    )
    result_url: str | None = Field(
        default=None, repr=False, description="Celery's results; unset: the same as redis_url."
    )
    model: str = Field(
        default="gpt-5.5-codex", min_length=1, description="The model of jobs that name none."
    )
    ca_bundle: str | None = Field(
        default=None,
        min_length=1,
        description="A PEM file added to the system's roots, never instead of them.",
    )
    max_file_bytes: int = Field(
        default=400_000, ge=1, le=2**30, description="The largest file a refactor job takes."
    )
    pools: dict[str, Pool] = Field(default_factory=dict)
    accounts: dict[str, Account] = Field(default_factory=dict)
    clocks: Clocks = Clocks()
    worker: WorkerSettings = WorkerSettings()
    retention: Retention = Retention()

    @field_serializer("redis_url", "broker_url", "result_url")
    def _mask(self, url: str | None) -> str | None:
        return None if url is None else masked(url)

    @property
    def simulated(self) -> bool:
        """True when no real provider is configured: every answer comes from the simulator."""
        keys = [key for pool in self.pools.values() for key in pool.keys]
        return bool(keys) and all(key.provider == SIMULATOR for key in keys)

    def describe(self) -> str:
        """Everything that is set, in the shape of the file, without a secret."""
        named = {"__all__": {"name"}}  # the name is already the table's
        dump = self.model_dump(
            mode="json", exclude_none=True, exclude={"pools": named, "accounts": named}
        )
        return as_toml(dump)

    def require_pools(self) -> None:
        """Raise SettingsError when there is no key to work with."""
        if not self.pools:
            pairs = ", or ".join(
                f"{name.upper()}_API_KEY and {name.upper()}_BASE_URL ({PROFILES[name].base_url})"
                for name in ("openai", "holysheep")
            )
            raise SettingsError(
                [f"no API key is configured: set {pairs}, or define [pools] in longstream.toml"]
            )

    def pool_for(self, model: str) -> Pool:
        """The first pool that serves `model`, in the order of the configuration."""
        self.require_pools()
        for pool in self.pools.values():
            if pool.serves(model):
                return pool
        served = sorted({pattern for pool in self.pools.values() for pattern in pool.models})
        raise SettingsError(
            [f"unknown model {model!r}: the configured pools serve {', '.join(served)}"]
        )

    def key(self, alias: str) -> Key | None:
        """The key with this alias, or None when the settings no longer have it."""
        for pool in self.pools.values():
            for key in pool.keys:
                if key.alias == alias:
                    return key
        return None
