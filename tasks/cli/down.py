"""`longstream down`: stop the embedded stack."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  longstream down
"""


@click.command(epilog=_EPILOG)
def command() -> None:
    """Stop the embedded stack. Running jobs are handed back and go on with the next start."""
    from tasks.cli.prepare import say
    from tasks.cli.up import HANDED_BACK
    from tasks.local.stack import Stack

    stack = Stack.default(say)
    if stack.worker.pid() is not None:
        say(f"stopping: {HANDED_BACK}")
    stopped = stack.down()
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
