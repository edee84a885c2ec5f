"""The compose file, read as a container engine would read it. No engine is needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
from ruamel.yaml import YAML

from settings import Settings, load
from tasks.local.server import find_server

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "compose.yaml")
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("worker", "demo-worker", "gateway", "demo-gateway", "simulator")
WORKERS = ("worker", "demo-worker")
PASSWORD = "a1b2c3d4"


def seconds(duration: str) -> float:
    number, unit = re.fullmatch(r"(\d+)([sm])", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


def environment(service: str) -> dict[str, str]:
    """The variables a container gets when only the password is set outside of it."""
    values = SERVICES[service]["environment"].items()
    return {name: value.replace("${VALKEY_PASSWORD}", PASSWORD) for name, value in values if value}


def test_the_file_is_valid_by_the_compose_specification() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"

    jsonschema.validate(COMPOSE, json.loads(schema.read_text("utf-8")))


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined_and_proves_its_health(name: str) -> None:
    service = SERVICES[name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_keeps_a_service_from_being_scaled_or_opens_it_to_the_outside(name: str) -> None:
    assert not {"container_name", "ports", "hostname", "network_mode"} & SERVICES[name].keys()


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_is_healthy_when_it_consumes_and_not_when_it_answers(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"] == ["CMD", "longstream", "worker", "--check"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_time_to_drain_before_it_is_killed(name: str) -> None:
    drain_s = Settings().worker.drain_s

    assert seconds(SERVICES[name]["stop_grace_period"]) >= drain_s + 10


@pytest.mark.parametrize(
    ("gateway", "worker"), [("gateway", "worker"), ("demo-gateway", "demo-worker")]
)
def test_a_gateway_submits_what_its_worker_can_run(gateway: str, worker: str) -> None:
    assert SERVICES[gateway]["environment"] == SERVICES[worker]["environment"]
    assert SERVICES[gateway]["command"][:2] == ["longstream", "serve"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_waits_for_what_it_needs(name: str) -> None:
    needs = SERVICES[name]["depends_on"]

    assert needs["valkey"] == {"condition": "service_healthy"}
    assert ("simulator" in needs) == (name == "demo-worker")


def test_the_benchmark_of_many_streams_has_the_store_of_the_file() -> None:
    from tests.benchmarks.stream_load.run import REWRITE_SIZE

    assert f"auto-aof-rewrite-min-size {REWRITE_SIZE}\n" in SERVICES["valkey"]["command"][2]


def test_the_demo_is_started_only_when_it_is_asked_for() -> None:
    profiles = {name: service.get("profiles") for name, service in SERVICES.items()}

    assert profiles == {
        "valkey": None,
        "worker": None,
        "gateway": None,
        "simulator": ["demo"],
        "demo-worker": ["demo"],
        "demo-gateway": ["demo"],
    }


def test_the_demo_worker_is_simulated_and_apart_from_real_ones(tmp_path: Path) -> None:
    demo = load(environment("demo-worker"), tmp_path)
    real = load(environment("worker"), tmp_path)

    assert demo.simulated
    assert demo.pools["simulator"].keys[0].base_url == "http://simulator:8000/v1"
    assert demo.redis_url == f"redis://:{PASSWORD}@valkey:6379/1"
    assert real.redis_url == f"redis://:{PASSWORD}@valkey:6379/0"


def test_every_variable_that_is_passed_on_is_one_that_is_read(tmp_path: Path) -> None:
    passed_on = {name for name, value in SERVICES["worker"]["environment"].items() if not value}
    keys = {
        "OPENAI_API_KEY": "sk-1",
        "OPENAI_BASE_URL": "https://one.example.com/v1",
        "HOLYSHEEP_API_KEY": "sk-2",
        "HOLYSHEEP_BASE_URL": "https://two.example.com/v1",
    }
    values = {"LONGSTREAM_MODEL": "m", "LONGSTREAM_WORKER__CONCURRENCY": "5"}
    assert passed_on == {*keys, *values}

    settings = load(environment("worker") | keys | values, tmp_path)

    assert (settings.model, settings.worker.concurrency) == ("m", 5)
    assert [key.alias for key in settings.pools["default"].keys] == ["openai", "holysheep"]


def test_no_secret_stands_in_the_file() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")

    assert "${VALKEY_PASSWORD:?" in text
    for line in re.findall(r"^\s*\w*(?:_KEY|PASSWORD):(.*)$", text, re.MULTILINE):
        assert not line.strip() or line.strip().startswith("${VALKEY_PASSWORD:?")


@pytest.fixture
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A server started by the very command of the service, on a socket instead of a port."""
    shell, flag, script = SERVICES["valkey"]["command"]
    home = tmp_path_factory.mktemp("v")
    socket = home / "s"
    (home / "valkey-server").symlink_to(find_server())
    script = script.replace("$$", "$").replace("<<END\n", f"<<END\nport 0\nunixsocket {socket}\n")
    path = f"{home}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [shell, flag, script],
        cwd=home,
        env={"PATH": path, "VALKEY_PASSWORD": PASSWORD},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert any(b"Ready to accept connections" in line for line in process.stdout)
        with redis.Redis.from_url(f"unix://:{PASSWORD}@{socket}") as client:
            yield client
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_store_keeps_what_it_took_and_asks_for_the_password(started: redis.Redis) -> None:
    wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}

    for name, value in wanted.items():
        assert started.config_get(name) == {name: value}
    assert started.config_get("requirepass") == {"requirepass": PASSWORD}


def test_the_store_is_on_a_volume_and_not_run_by_root() -> None:
    assert SERVICES["valkey"]["image"].startswith("valkey/valkey:")
    assert SERVICES["valkey"]["user"] == "valkey"
    assert SERVICES["valkey"]["volumes"] == ["valkey:/data"]
    assert "valkey" in COMPOSE["volumes"]
