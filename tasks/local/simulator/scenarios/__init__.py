"""Every behaviour of the simulator by the name of the model that asks for it."""

from __future__ import annotations

from tasks.local.simulator.scenarios import faults, models
from tasks.local.simulator.scenarios.scenario import Scenario

FAMILIES = (models, faults)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for family in FAMILIES for scenario in family.SCENARIOS
}
