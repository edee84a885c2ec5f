"""Every behaviour of the simulator by the name of the model that asks for it.

The quirks are loaded when the first of them is asked for: they are many, and a start should be
quick.
"""

from __future__ import annotations

from importlib import import_module

from tasks.local.simulator.scenarios import edits, faults, field, models
from tasks.local.simulator.scenarios.scenario import Scenario

_ORDINARY = {
    one.name: one
    for one in (*models.SCENARIOS, *edits.SCENARIOS, *faults.SCENARIOS, *field.SCENARIOS)
}


def find(name: str) -> Scenario | None:
    """The scenario with this name."""
    return _ORDINARY.get(name) or every().get(name)


def every() -> dict[str, Scenario]:
    """All of them, in the order of the documentation."""
    quirks: tuple[Scenario, ...] = import_module(f"{__name__}.quirks").SCENARIOS
    return _ORDINARY | {one.name: one for one in quirks}
