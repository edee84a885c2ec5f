"""The doctor names what would lose jobs, and the way out; a worker says so when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import redis
from click.testing import CliRunner
from msgspec.structs import replace
from structlog.testing import capture_logs

from settings import load
from settings.model import Settings
from tasks.cli import doctor as command
from tests.harness.valkey import Valkey
from worker.admission import line
from worker.doctor import checks
from worker.doctor.checks import Finding, Level, at_start, examine
from worker.store.connections import connect
from worker.store.keys import pool_keys


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    with connect(valkey.url) as client:
        client.flushall()
        yield client
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "0")
        client.config_set("appendonly", "yes")
        client.replicaof("NO", "ONE")


@pytest.fixture
def settings(valkey: Valkey, tmp_path: Path) -> Settings:
    environ = {"LONGSTREAM_REDIS_URL": valkey.url, "LONGSTREAM_SIMULATOR_URL": "http://127.0.0.1:1"}
    return load(environ, tmp_path)


def of(check: str, settings: Settings) -> Finding:
    return next(finding for finding in examine(settings) if finding.check == check)


def test_a_sound_server_has_only_its_missing_worker_to_say(
    client: redis.Redis, settings: Settings
) -> None:
    worrying = {f.check for f in examine(settings) if f.level is not Level.OK}
    assert worrying == {"keys", "workers"}
    client.zadd(pool_keys("simulator").workers, {"w@h": 2**52})
    assert of("workers", settings).says == "1 alive"


@pytest.mark.parametrize(("policy", "level"), [
    ("noeviction", Level.OK), ("volatile-ttl", Level.WARNING), ("allkeys-lru", Level.PROBLEM),
])  # fmt: skip
def test_a_policy_that_evicts_live_jobs_is_a_problem(
    client: redis.Redis, settings: Settings, policy: str, level: Level
) -> None:
    client.config_set("maxmemory-policy", policy)
    assert of("eviction", settings).level is level


def test_a_server_without_persistence_is_a_problem(client: redis.Redis, settings: Settings) -> None:
    client.config_set("appendonly", "no")
    finding = of("persistence", settings)
    assert (finding.level, finding.remedy) == (
        Level.PROBLEM,
        "set appendonly yes and appendfsync everysec",
    )


def test_a_server_that_is_nearly_full_is_named(client: redis.Redis, settings: Settings) -> None:
    used: Any = client.info("memory")
    client.config_set("maxmemory", int(used["used_memory"] * 1.02))
    assert "when it is full, submits fail" in of("memory", settings).says


def test_a_replica_is_a_problem(client: redis.Redis, settings: Settings) -> None:
    client.replicaof("127.0.0.1", "1")
    assert of("role", settings).level is Level.PROBLEM


def test_a_server_that_leaves_things_out_is_no_broken_one(
    client: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As providers of Redis do."""
    monkeypatch.setattr(redis.Redis, "info", lambda *_: {})
    found = {f.check: f for f in examine(settings)}
    for check in ("version", "eviction", "persistence", "role"):
        assert found[check].level is Level.WARNING
        assert "the server does not say" in found[check].says


def test_a_server_that_forbids_a_question_is_no_broken_one(
    client: redis.Redis, settings: Settings
) -> None:
    client.execute_command("ACL", "SETUSER", "default", "-info")
    try:
        found = {f.check: f.level for f in examine(settings)}
    finally:
        client.execute_command("ACL", "SETUSER", "default", "+info")
    assert found["eviction"] is Level.WARNING
    assert found["clock"] is Level.OK


def test_a_variable_that_means_nothing_is_named(
    client: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSTREAM_DEFAULT_MODL", "gpt-x")
    assert "did you mean LONGSTREAM_MODEL?" in of("environment", settings).says


def test_a_server_that_does_not_answer_is_named_without_its_password(
    client: redis.Redis, settings: Settings
) -> None:
    away = replace(settings, broker_url="redis://:hunter2@127.0.0.1:1/0")
    found = examine(away)
    finding = next(f for f in found if f.level is Level.FATAL)
    assert finding.says.startswith("broker: redis://127.0.0.1:1/0 does not answer")
    assert "hunter2" not in str(found)


@pytest.mark.parametrize(("info", "level"), [
    ({"redis_version": "6.0.16"}, Level.FATAL),
    ({"redis_version": "6.2.0"}, Level.OK),
    ({"redis_version": "10.1.0"}, Level.OK),
    ({"redis_version": "7.2.4", "valkey_version": "8.0.1"}, Level.OK),
])  # fmt: skip
def test_a_server_that_would_make_a_deleted_log_anew_is_refused(
    settings: Settings, info: dict[str, str], level: Level
) -> None:
    told: Any = SimpleNamespace(info=lambda _: info)
    (finding,) = checks._version(told, settings)
    assert finding.level is level


def test_a_server_that_forbids_a_question_is_not_a_broken_one(settings: Settings) -> None:
    def forbidden(_: str) -> None:
        raise redis.exceptions.NoPermissionError("no permissions to run the 'info' command")

    told: Any = SimpleNamespace(info=forbidden)
    (finding,) = checks._guarded(checks._eviction, told, settings)
    assert (finding.check, finding.level) == ("eviction", Level.WARNING)


def test_clocks_that_differ_are_named(settings: Settings) -> None:
    told: Any = SimpleNamespace(time=lambda: (1_000_000, 0))
    (finding,) = checks._clock(told, settings)
    assert finding.level is Level.WARNING


def test_a_worker_says_at_its_start_what_is_fragile(
    client: redis.Redis, settings: Settings
) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    with capture_logs() as lines:
        at_start(settings)
    assert [line["event"] for line in lines] == ["doctor.eviction"]
    assert lines[0]["remedy"] == "set maxmemory-policy noeviction"


def test_a_worker_does_not_start_on_a_server_too_old(
    client: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        checks, "_CHECKS", (lambda *_: iter([Finding("version", Level.FATAL, "old")]),)
    )
    with pytest.raises(SystemExit, match="old"):
        at_start(settings)


def test_a_worker_waits_for_a_server_that_is_not_up_yet(settings: Settings) -> None:
    with capture_logs() as lines:
        at_start(replace(settings, redis_url="redis://127.0.0.1:1/0", broker_url=None))
    assert lines == []


def test_the_command_shows_findings_and_exits_1_when_jobs_are_not_safe(
    client: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSTREAM_REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("LONGSTREAM_SIMULATOR_URL", "http://127.0.0.1:1")
    ran = CliRunner().invoke(command.command, [])
    assert (ran.exit_code, "append-only file" in ran.output) == (0, True)
    client.config_set("appendonly", "no")
    ran = CliRunner().invoke(command.command, ["--json"])
    assert ran.exit_code == 1
    found = [msgspec.json.decode(line, type=Finding) for line in ran.output.splitlines()]
    assert (
        Finding(
            "persistence",
            Level.PROBLEM,
            "there is no append-only file: a restart loses every job since the last snapshot",
            "set appendonly yes and appendfsync everysec",
        )
        in found
    )


def test_keys_out_of_use_and_waiting_jobs_are_told(client: redis.Redis, settings: Settings) -> None:
    keys = pool_keys("simulator")
    rest = {"until": 2**53 - 1, "cause": "401 Unauthorized"}
    client.hset(keys.rests, "key simulator", msgspec.json.encode(rest))
    line.run(client, line.enqueue("simulator", "j1"))
    line.run(client, line.enqueue("simulator", "j2", wait_ms=60_000))
    finding = of("out_of_use", settings)
    assert finding.level is Level.WARNING
    assert "key simulator is out of use until repaired: 401" in finding.says
    assert "longstream keys enable simulator" in finding.remedy
    says = of("waiting", settings).says
    assert says.startswith("pool simulator: 1 waiting, 1 for a later time; the first waits for a")
