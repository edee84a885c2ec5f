"""What is exposed, what the documentation says of it, and what the example alerts ask for."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from settings.model import WorkerSettings
from tasks.gateway.health import GatewayGauges
from worker.seeing.exposition import exposed
from worker.seeing.fleet_gauges import FleetGauges
from worker.seeing.meters import Counter, Histogram, Meter, Meters
from worker.seeing.vitals import Vitals

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "metrics.md").read_text("utf-8")


@dataclass
class Part:
    """A part of a worker that last moved so long ago."""

    idle: float = 0.0
    draining: bool = False

    def idle_s(self) -> float:
        return self.idle

    def held(self) -> list[int]:
        return [1, 2]


def vitals(**idle: float) -> Vitals:
    loop, keeper, feeder = (Part(idle.get(name, 0.0)) for name in ("loop", "keeper", "feeder"))
    return Vitals(WorkerSettings(), loop, keeper, feeder)


def every() -> list[Meter]:
    return [
        *Meters().all(),
        *vitals().gauges(),
        *FleetGauges().all(),
        *GatewayGauges().all(),
    ]


def name_of(meter: Meter) -> str:
    return f"longstream_{meter.name}{'_total' if isinstance(meter, Counter) else ''}"


def row(meter: Meter) -> str:
    labels = ", ".join(f"`{label}`" for label in meter.labels) or "-"
    kind = type(meter).__name__.lower()
    return f"| `{name_of(meter)}` | {kind} | {labels} | {meter.meaning} |"


def test_the_documentation_lists_what_is_exposed_and_nothing_else() -> None:
    documented = [line for line in TEXT.splitlines() if line.startswith("| `longstream_")]

    assert sorted(documented) == sorted(map(row, every()))


def test_no_two_metrics_have_one_name() -> None:
    names = [meter.name for meter in every()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("meter", every(), ids=lambda meter: meter.name)
def test_no_label_can_name_a_job_a_tenant_or_a_prompt(meter: Meter) -> None:
    bounded = {"pool", "account", "dimension", "key", "kind", "mode", "outcome", "why", "state"}

    assert set(meter.labels) <= bounded | {"after_text", "part", "model"}


def test_what_is_exposed_is_the_text_format_and_adds_up() -> None:
    meters = Meters()
    meters.ended.add("p", "completed")
    for value in (0.0004, 0.003, 99.0):
        meters.to_log.of().observe(value)

    families = {f.name: f for f in text_string_to_metric_families(exposed(meters.all()).decode())}
    found = {(s.name, s.labels.get("le")): s.value for s in families_samples(families)}

    assert found["longstream_wire_to_log_seconds_bucket", "0.0005"] == 1
    assert found["longstream_wire_to_log_seconds_bucket", "10.0"] == 2
    assert found["longstream_wire_to_log_seconds_bucket", "+Inf"] == 3
    assert found["longstream_wire_to_log_seconds_count", None] == 3
    assert found["longstream_wire_to_log_seconds_sum", None] == pytest.approx(99.0034)
    assert found["longstream_jobs_ended_total", None] == 1


def families_samples(families: dict[str, object]) -> list[object]:
    return [sample for family in families.values() for sample in family.samples]  # type: ignore[attr-defined]


def test_the_example_alerts_ask_for_metrics_and_labels_there_are() -> None:
    known = {name_of(meter): set(meter.labels) for meter in every()}
    known |= {f"{name_of(m)}_count": {*m.labels} for m in every() if isinstance(m, Histogram)}
    document = YAML(typ="safe").load(DOCS / "alerts.yaml")
    rules = document["groups"][0]["rules"]

    assert len(rules) >= 5
    for rule in rules:
        asked = re.findall(r"(longstream_\w+)(?:\{(\w+)=)?", rule["expr"])
        by = set(re.findall(r"by \((\w+)\)", rule["expr"]))
        assert asked, rule["alert"]
        for name, label in asked:
            assert name in known, rule["alert"]
            assert ({label} if label else set()) | by <= known[name], rule["alert"]


def test_a_part_that_hangs_is_named_and_others_are_not() -> None:
    checks = vitals(loop=16).checks()

    assert [check.check for check in checks if not check.ok] == ["loop"]
    assert checks[0].says == "has not moved for 16 s"
    assert all(check.ok for check in vitals().checks())
    assert [c.check for c in vitals(feeder=3600).checks() if not c.ok] == ["feeder"]


def test_a_worker_loads_nothing_of_prometheus_before_it_is_asked() -> None:
    code = "import worker.app, sys; print([m for m in sys.modules if 'prometheus' in m])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert run.stdout.strip() == "[]", run.stderr
