"""The shape of the settings: frozen, typed, every default with its unit and reason.

Secrets are `SecretStr`, so `repr`, `str` and `model_dump_json` of a settings object never show
one. A key's base_url and secret are one value and travel together.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from settings.errors import SettingsError
from settings.profiles import PROFILES, Profile


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Account(_Frozen):
    """The owner of the limits. None means: no limit known."""

    name: str
    streams: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    requests_per_day: int | None = Field(default=None, ge=1)


class Key(_Frozen):
    """One provider credential with its base_url; everywhere else it is its alias."""

    alias: str
    provider: str
    base_url: str
    secret: SecretStr
    account: str

    @property
    def profile(self) -> Profile:
        return PROFILES[self.provider]


class Pool(_Frozen):
    """The keys that can serve a model. `models` are shell patterns, matched with case."""

    name: str
    models: tuple[str, ...] = ("*",)
    keys: tuple[Key, ...]

    def serves(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class Clocks(_Frozen):
    """Time limits of one upstream request, in seconds.

    `read_s` bounds one socket read; the idle clocks bound what the reads bring: `bytes_idle_s`
    any byte, `progress_idle_s` a parsed event (comments do not count). `total_s` None: no limit.
    """

    connect_s: float = Field(default=10.0, gt=0)
    write_s: float = Field(default=10.0, gt=0)
    pool_s: float = Field(default=10.0, gt=0)
    read_s: float = Field(default=600.0, gt=0)
    headers_s: float = Field(default=600.0, gt=0)
    bytes_idle_s: float = Field(default=120.0, gt=0)
    progress_idle_s: float = Field(default=300.0, gt=0)
    total_s: float | None = Field(default=None, gt=0)


class WorkerSettings(_Frozen):
    """What one worker process runs with; every duration in seconds."""

    #: Streams of one process. One more waiting thread each; CPU per delta is the real limit.
    concurrency: int = Field(default=100, ge=1, le=2000)
    lease_s: float = Field(default=15.0, gt=0)
    renew_s: float = Field(default=5.0, gt=0)
    #: From grant to claim: covers one publish and one fetch over the broker.
    handoff_s: float = Field(default=10.0, gt=0)
    drain_s: float = Field(default=30.0, ge=0)
    #: Undelivered text one stream may hold while Redis does not answer; then reading stops.
    buffer_bytes: int = Field(default=8 * 2**20, ge=2**16)
    #: A job whose workers die this often is the cause itself.
    max_crashes: int = Field(default=3, ge=1)
    #: Interruptions and retries of one job before it fails.
    max_attempts: int = Field(default=10, ge=1)


class Retention(_Frozen):
    """How long an ended job is kept, in seconds: first its log goes, then its record."""

    log_s: int = Field(default=7 * 86_400, ge=1)
    record_s: int = Field(default=30 * 86_400, ge=1)


class Settings(_Frozen):
    """Everything longstream runs with. Build it with `settings.load`."""

    #: None: the embedded stack's private server.
    redis_url: str | None = None
    broker_url: str | None = None
    result_url: str | None = None
    model: str = "gpt-5.5-codex"
    #: Added to the system's roots, never instead of them.
    ca_bundle: str | None = None
    max_file_bytes: int = Field(default=400_000, ge=1)
    pools: dict[str, Pool] = Field(default_factory=dict)
    accounts: dict[str, Account] = Field(default_factory=dict)
    clocks: Clocks = Clocks()
    worker: WorkerSettings = WorkerSettings()
    retention: Retention = Retention()

    @property
    def simulated(self) -> bool:
        """True when no real provider is configured: every answer comes from the simulator."""
        keys = [key for pool in self.pools.values() for key in pool.keys]
        return bool(keys) and all(key.provider == "simulator" for key in keys)

    def pool_for(self, model: str) -> Pool:
        """The first pool that serves `model`, in the order of the configuration."""
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
