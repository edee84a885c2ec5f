"""How the choice of a model is told."""

from __future__ import annotations

from settings.model import Settings
from worker.job.routing import Choice


def told(choice: Choice, settings: Settings) -> str:
    """One line: the model, why, and what a million of its tokens cost less."""
    if not choice.rule:
        return f"model {choice.model}: {choice.why}"
    line = f"model {choice.model} instead of {choice.instead_of}: {choice.why}"
    ours, theirs = settings.price(choice.model).output, settings.price(choice.instead_of).output
    if ours is None or theirs is None:
        return f"{line}; what that saves is unknown, since a price is"
    return f"{line}; saves {theirs - ours:.2f} USD per million output tokens"
