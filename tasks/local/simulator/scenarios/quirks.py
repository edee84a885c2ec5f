"""The quirks of all families, in the order of the catalogue."""

from __future__ import annotations

from tasks.local.simulator.scenarios import (
    bodies,
    channels,
    chunks,
    endings,
    instream,
    limits,
    lines,
    octets,
    parameters,
    silences,
    snapshots,
)
from tasks.local.simulator.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *lines.SCENARIOS,
    *octets.SCENARIOS,
    *bodies.SCENARIOS,
    *instream.SCENARIOS,
    *chunks.SCENARIOS,
    *channels.SCENARIOS,
    *endings.SCENARIOS,
    *snapshots.SCENARIOS,
    *limits.SCENARIOS,
    *silences.SCENARIOS,
    *parameters.SCENARIOS,
)
