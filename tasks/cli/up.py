"""`longstream up`: the embedded stack in the foreground."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from settings.model import Settings
    from tasks.local.stack import Stack

_EPILOG = """\b
Examples:
  longstream up
  LONGSTREAM_STATE_DIR=/srv/longstream longstream up
"""

_POLL_S = 0.2
HANDED_BACK = "jobs that still run are handed back, and go on with the next start"


@click.command(epilog=_EPILOG)
def command() -> None:
    """Start the embedded stack, or join it, and show its worker's log; Ctrl-C stops it.

    The stack is a private Valkey, a worker, the gateway with its page and, without an API key, the
    provider simulator. Other commands start the same stack by themselves, in the background, but
    for the gateway. Its data and logs are in LONGSTREAM_STATE_DIR, else in
    ~/.local/state/longstream. With LONGSTREAM_REDIS_URL set there is no embedded stack: run
    `longstream worker` instead, on as many machines as you like.
    """
    from settings import load
    from tasks.cli.prepare import SIMULATED, say
    from tasks.local.stack import Stack, StackError

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
    with stack.worker.log.open("rb") as log:
        log.seek(0, 2)
        try:
            _serve(stack, settings)
            _show(log, stack)
        except KeyboardInterrupt:
            say(f"stopping within {settings.worker.drain_s:.0f} s: {HANDED_BACK}")
            stack.down()
            click.echo(log.read(), nl=False)
            return
    raise StackError(f"the worker was stopped by something else: see {stack.worker.log}")


def _serve(stack: Stack, settings: Settings) -> None:
    """The gateway as well, where it is installed. The rest works without it."""
    from importlib.util import find_spec

    from tasks.cli.prepare import say
    from tasks.local.stack import StackError

    if not all(map(find_spec, ("starlette", "uvicorn", "httptools", "jinja2"))):
        say("no page: pip install 'longstream[gateway]' to have one")
        return
    try:
        say(f"the page is at {stack.serve(settings)}")
    except StackError as error:
        say(f"no page: {error}")


def _show(log: IO[bytes], stack: Stack) -> None:
    """Until the worker ends."""
    while stack.worker.pid() is not None:
        if written := log.read():
            click.echo(written, nl=False)
        else:
            time.sleep(_POLL_S)
