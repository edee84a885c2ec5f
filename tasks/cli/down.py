"""`longstream down`: stop the embedded stack."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  longstream down
  LONGSTREAM_WORKER__DRAIN_S=0 longstream up      a worker that hands back at once
"""


@click.command(epilog=_EPILOG)
def command() -> None:
    """Stop the embedded stack. Running jobs are handed back and go on with the next start.

    The worker first lets its streams finish for as long as worker.drain_s says (30 seconds unless
    set). No job, text or result is lost.
    """
    from tasks.cli.prepare import say
    from tasks.cli.up import HANDED_BACK
    from tasks.local.stack import Stack

    stack = Stack.default(say)
    if stack.worker.pid() is not None:
        say(f"stopping: {HANDED_BACK}")
    stopped = stack.down()
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
