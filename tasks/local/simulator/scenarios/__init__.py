"""Every behaviour of the simulator by the name of the model that asks for it."""

from __future__ import annotations

from tasks.local.simulator.scenarios import (
    bodies,
    channels,
    chunks,
    faults,
    instream,
    lines,
    models,
    octets,
)
from tasks.local.simulator.scenarios.scenario import Scenario

FAMILIES = (models, faults, lines, octets, bodies, instream, chunks, channels)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for family in FAMILIES for scenario in family.SCENARIOS
}
