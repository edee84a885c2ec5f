"""What a run will send, shown before it does, and one question."""

from __future__ import annotations

import sys

import click

from settings.model import Settings
from tasks.cli.listing import counted
from tasks.cli.prepare import say
from tasks.edits.paths import shown
from tasks.runs.plan import Plan, kinds_of
from worker.admission.estimates import tokens_of

#: Files and reasons listed one by one; of more, only how many.
_LISTED = 12


def preview(plan: Plan, settings: Settings) -> None:
    """To stderr: files with their tokens, what is left out, and the sum of it."""
    files = sorted(plan.files, key=lambda file: -file.size)
    for file in files[:_LISTED]:
        click.echo(f"  {tokens_of(file.text):>9,}  {shown(file.path)}", err=True)
    if len(files) > _LISTED:
        rest = sum(tokens_of(file.text) for file in files[_LISTED:])
        click.echo(f"  {rest:>9,}  in {len(files) - _LISTED} smaller files", err=True)
    left_out(plan)
    say(summary(plan, settings))


def left_out(plan: Plan) -> None:
    """Each reason with the files it holds for."""
    if len(plan.left_out) <= _LISTED:
        told = [f"{shown(path)} {reason}" for path, reason in plan.left_out]
    else:
        told = kinds_of(plan.left_out)
    for line in told:
        say(f"left out: {line}")


def summary(plan: Plan, settings: Settings) -> str:
    """One line: how much goes where, and about what it costs."""
    tokens, jobs = plan.tokens, len(plan.groups)
    simulated = " (simulated: nothing is billed)" if _simulated(settings) else ""
    return (
        f"{counted(len(plan.files), 'file')}, about {tokens.input:,} tokens to {plan.model} in "
        f"{counted(jobs, 'job')}, and about {tokens.output:,} back; estimated cost: "
        f"{plan.cost(settings)}{simulated}"
    )


def _simulated(settings: Settings) -> bool:
    """Without any key the simulator will stand in."""
    return settings.simulated or not settings.pools


def confirmed(plan: Plan, settings: Settings, *, yes: bool) -> bool:
    """Whether to send it. Asks once where a person can answer; where nobody can, what was found in
    directories and by patterns needs `--yes`. Raises UsageError then."""
    several = len(plan.files) > 1 or plan.found
    person = sys.stdin.isatty() and sys.stderr.isatty()
    if yes or not several:
        left_out(plan)
        return True
    if person:
        preview(plan, settings)
        return click.confirm("longstream: send them?", default=True, err=True)
    left_out(plan)
    if plan.found:
        raise click.UsageError(
            f"nobody is there to ask: add --yes to send {summary(plan, settings)}"
        )
    return True
