"""Every behaviour of the simulator by the name of the model that asks for it."""

from __future__ import annotations

from tasks.local.simulator.scenarios import (
    bodies,
    channels,
    chunks,
    endings,
    faults,
    instream,
    limits,
    lines,
    models,
    octets,
    parameters,
    silences,
    snapshots,
)
from tasks.local.simulator.scenarios.scenario import Scenario

FAMILIES = (
    models,
    faults,
    lines,
    octets,
    bodies,
    instream,
    chunks,
    channels,
    endings,
    snapshots,
    limits,
    silences,
    parameters,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for family in FAMILIES for scenario in family.SCENARIOS
}
