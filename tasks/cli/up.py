"""`longstream up`: the embedded stack in the foreground."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tasks.local.stack import Stack

_EPILOG = """\b
Examples:
  longstream up
  LONGSTREAM_STATE_DIR=/srv/longstream longstream up
"""

_POLL_S = 0.2


@click.command(epilog=_EPILOG)
def command() -> None:
    """Start the embedded stack, or join it, show its worker's log; Ctrl-C stops it.

    Other commands start the same stack by themselves, in the background.
    """
    from settings import load
    from tasks.cli.prepare import SIMULATED, say
    from tasks.local.stack import Stack

    settings = load()
    if settings.redis_url is not None:
        raise click.UsageError(
            "a Redis is configured, so there is no embedded stack: "
            "use `longstream worker`, or unset LONGSTREAM_REDIS_URL"
        )
    stack = Stack.default(say)
    settings = stack.ensure(settings)
    if settings.simulated:
        say(SIMULATED)
    say(f"running in {stack.state}; Ctrl-C stops it")
    try:
        _show_log(stack)
    except KeyboardInterrupt:
        say("stopping: running jobs are handed back and go on with the next start")
        stack.down()


def _show_log(stack: Stack) -> None:
    with stack.worker.log.open() as log:
        log.seek(0, 2)
        while stack.worker.pid() is not None:
            if line := log.readline():
                click.echo(line, nl=False)
            else:
                time.sleep(_POLL_S)
    from tasks.local.stack import StackError

    raise StackError(f"the worker has ended: see {stack.worker.log}")
