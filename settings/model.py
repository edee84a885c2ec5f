"""The shape of the settings: frozen, typed, every default with its unit and meaning.

Neither `repr` nor `str` of a settings object shows a secret or a Redis URL, which may hold a
password; `describe` shows the URLs masked. A key's base_url and secret are one value and travel
together. What a field may hold and means stands in its annotation; `settings.load` checks it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from settings.accounts import Account as Account, Family as Family, Limits as Limits
from settings.budgets import Budget, Tenant
from settings.describe import described
from settings.errors import SettingsError
from settings.prices import Price, price_of
from settings.profiles import PROFILES, Api, Dialect, Profile
from settings.routing import Route, Routing
from settings.secret import Secret

_DAY_S = 86_400

#: No duration of one request or lease is longer than a day; a larger number is a wrong unit.
Seconds = Annotated[float, Meta(gt=0, le=_DAY_S)]
#: At most ten years.
KeptSeconds = Annotated[int, Meta(ge=1, le=3_650 * _DAY_S)]
Count = Annotated[int, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(min_length=1)]

#: The provider, alias and pool that stand in when no real key is configured.
SIMULATOR = "simulator"

#: A day without a beginning: the last 24 hours, whenever.
ROLLING_DAY = "rolling"


class Key(Struct, frozen=True, kw_only=True):
    """One provider credential with its base_url; everywhere else it is its alias."""

    alias: str
    provider: str
    base_url: str
    secret: Secret
    account: str
    #: None: the API of the provider's profile.
    api: Api | None = None

    @property
    def profile(self) -> Profile:
        """The provider's profile, speaking the API this key is used with."""
        profile = PROFILES[self.provider]
        if self.api is None:
            return profile
        dialect: Dialect = "chat" if self.api == "chat" else "responses"
        return replace(profile, dialect=dialect, background=self.api == "background")


class Pool(Struct, frozen=True, kw_only=True):
    """The keys that can serve a model. `models` are shell patterns, matched with case."""

    name: str
    models: tuple[str, ...] = ("*",)
    keys: tuple[Key, ...]

    def serves(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


class Clocks(Struct, frozen=True, kw_only=True):
    """Time limits of one upstream request, in seconds.

    `read_s` bounds one socket read; the idle clocks bound what the reads bring: `bytes_idle_s`
    any byte, `progress_idle_s` a parsed event (comments do not count). `total_s` None: no limit.
    """

    connect_s: Annotated[Seconds, "To open a connection, TLS included."] = 10.0
    write_s: Annotated[Seconds, "To send one piece of a request."] = 10.0
    pool_s: Annotated[Seconds, "To wait for a free connection."] = 10.0
    read_s: Annotated[Seconds, "One read from the socket."] = 600.0
    headers_s: Annotated[Seconds, "From the request sent to the answer's headers."] = 600.0
    bytes_idle_s: Annotated[Seconds, "Without any byte of the answer."] = 120.0
    progress_idle_s: Annotated[Seconds, "Without a parsed event; comments do not count."] = 300.0
    total_s: Annotated[Seconds | None, "The whole request; unset: no limit."] = None


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """What one worker process runs with; every duration in seconds."""

    #: One more waiting thread each; CPU per delta is the real limit.
    concurrency: Annotated[int, Meta(ge=1, le=2000), "Streams of one process."] = 100
    lease_s: Annotated[Seconds, "A lease ends this long after its last renewal."] = 15.0
    renew_s: Annotated[Seconds, "Between renewals; the lease must last over two of them."] = 5.0
    handoff_s: Annotated[
        Seconds, "From grant to claim: covers one publish and one fetch over the broker."
    ] = 10.0
    drain_s: Annotated[
        float,
        Meta(ge=0, le=_DAY_S),
        "A stopping worker's streams may finish so long before they are handed over.",
    ] = 30.0
    buffer_bytes: Annotated[
        int,
        Meta(ge=2**16, le=2**30),
        "Text one stream holds while Redis does not answer; then it stops reading.",
    ] = 8 * 2**20
    max_crashes: Annotated[
        Count, "A job whose workers die this often fails: it is the cause itself."
    ] = 3
    max_attempts: Annotated[Count, "Interruptions and retries of one job before it fails."] = 10
    backoff_s: Annotated[
        Seconds, "Longest pause before a failed job is tried again, drawn from 0 to min(this, 2^n)."
    ] = 60.0
    listen: Annotated[
        Text | None,
        "HOST:PORT where the worker answers /metrics, /healthz and /readyz; unset: nowhere.",
    ] = None


class Retention(Struct, frozen=True, kw_only=True):
    """How long an ended job is kept, in seconds: first its log goes, then its record, and at last
    the tombstone by which readers are told that it is expired and not unknown."""

    log_s: Annotated[KeptSeconds, "The log of an ended job: every delta."] = 7 * _DAY_S
    record_s: Annotated[KeptSeconds, "Its record with the result; not shorter than the log."] = (
        30 * _DAY_S
    )
    tombstone_s: Annotated[
        KeptSeconds, "After the record went, how long readers hear `expired`, not `unknown`."
    ] = 60 * _DAY_S

    spend_s: Annotated[KeptSeconds, "The books of a day: what was spent, by whom."] = 400 * _DAY_S

    @property
    def ages_s(self) -> tuple[int, int, int]:
        """Seconds from a job's end until its log, its record and its tombstone go."""
        record_s = max(self.log_s, self.record_s)
        return self.log_s, record_s, record_s + self.tombstone_s


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """What the HTTP gateway runs with."""

    host: Annotated[Text, "The address it listens on; off loopback, callers need tokens."] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65_535), "Its port; 0 takes a free one."] = 8700
    tokens: Annotated[
        Literal["off_loopback", "always"],
        "When callers need tokens; `always` behind a proxy on the same machine.",
    ] = "off_loopback"
    hosts: Annotated[Text, "Names it may be called by without tokens, separated by commas."] = (
        "localhost"
    )
    max_body_bytes: Annotated[int, Meta(ge=1024, le=2**30), "The largest body of a request."] = (
        16 * 2**20
    )
    readers: Annotated[int, Meta(ge=1, le=100_000), "Event streams of one process."] = 10_000


class Tracing(Struct, frozen=True, kw_only=True):
    """Where the traces of jobs go."""

    endpoint: Annotated[
        Text | None, "An OTLP collector over HTTP, as http://127.0.0.1:4318; unset: no traces."
    ] = None
    sample: Annotated[float, Meta(ge=0, le=1), "The share of jobs that are traced."] = 1.0


class Settings(Struct, frozen=True, kw_only=True):
    """Everything longstream runs with. Build it with `settings.load`."""

    redis_url: Annotated[str | None, "Unset: the embedded stack's private server."] = None
    broker_url: Annotated[str | None, "Celery's broker; unset: the same as redis_url."] = None
    result_url: Annotated[str | None, "Celery's results; unset: the same as redis_url."] = None
    model: Annotated[Text, "The model of jobs that name none."] = "gpt-5.5-codex"
    ca_bundle: Annotated[
        Text | None,
        "A PEM file added to the system's roots, never instead of them.",
    ] = None
    task_modules: Annotated[
        Text | None, "Modules with tasks of your own, separated by commas; workers import them."
    ] = None
    max_file_bytes: Annotated[
        int, Meta(ge=1, le=2**30), "The largest file a refactor job takes."
    ] = 400_000
    pools: dict[str, Pool] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    prices: dict[str, Price] = field(default_factory=dict)
    routing: Routing = Routing()
    routes: dict[str, Route] = field(default_factory=dict)
    fallbacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    budget: Budget = Budget()
    tenants: dict[str, Tenant] = field(default_factory=dict)
    clocks: Clocks = Clocks()
    worker: WorkerSettings = WorkerSettings()
    retention: Retention = Retention()
    gateway: GatewaySettings = GatewaySettings()
    tracing: Tracing = Tracing()

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What consoles and `repr` show: a URL may hold a password."""
        shown = (name for name in self.__struct_fields__ if not name.endswith("_url"))
        return [(name, getattr(self, name)) for name in shown]

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def weight_of(self, tenant: str) -> float:
        """Its share of the line."""
        return self.tenants[tenant].weight if tenant in self.tenants else 1.0

    @property
    def store_url(self) -> str:
        """`redis_url` where one is there for certain: a worker has it, and commands see to it."""
        assert self.redis_url is not None
        return self.redis_url

    @property
    def simulated(self) -> bool:
        """True when no real provider is configured: every answer comes from the simulator."""
        keys = [key for pool in self.pools.values() for key in pool.keys]
        return bool(keys) and all(key.provider == SIMULATOR for key in keys)

    def describe(self) -> str:
        """Everything that is set, in the shape of the file, without a secret."""
        return described(self)

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

    def price(self, model: str) -> Price:
        """What `model` costs, as far as that is known."""
        return price_of(model, self.prices)

    def key(self, alias: str) -> Key | None:
        """The key with this alias, or None when the settings no longer have it."""
        for pool in self.pools.values():
            for key in pool.keys:
                if key.alias == alias:
                    return key
        return None
