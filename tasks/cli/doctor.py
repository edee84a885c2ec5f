"""`longstream doctor`: what would lose or stall jobs here, and what to do about it."""

from __future__ import annotations

import sys

import click

_EPILOG = """\b
Examples:
  longstream doctor
  longstream doctor --json | jq 'select(.level != "ok")'
"""

_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "fatal": "PROBLEM"}


@click.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a finding.")
def command(as_json: bool) -> None:
    """Check servers, persistence, eviction, clock, keys and workers. Exit 1 when jobs are not safe.

    With no Redis configured it looks at the embedded stack, and starts it if need be.
    """
    import msgspec

    from settings import load
    from tasks.cli.listing import hanging, screen_width
    from tasks.cli.prepare import say
    from tasks.current import use
    from worker.doctor.checks import Level, examine

    findings = examine(use(load(), say))
    for finding in findings:
        if as_json:
            click.echo(msgspec.json.encode(finding).decode())
            continue
        remedy = f": {finding.remedy}" if finding.remedy else ""
        head = f"{_MARKS[finding.level]:<8} {finding.check:<12} "
        click.echo(hanging(head, f"{finding.says}{remedy}", screen_width()))
    sound = all(finding.level in (Level.OK, Level.WARNING) for finding in findings)
    sys.exit(0 if sound else 1)
