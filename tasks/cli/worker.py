"""`longstream worker`: a worker in the foreground, and its health check."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

#: How long a healthy worker may take to run a probe, in seconds.
_PROBE_S = 10.0

if TYPE_CHECKING:
    from settings.model import Settings

_EPILOG = """\b
Examples:
  longstream worker
  longstream worker --concurrency 200
  longstream worker --check       exit 0 only if this host's workers consume
"""


@click.command(epilog=_EPILOG)
@click.option("--concurrency", type=click.IntRange(1, 2000), help="Streams at a time.")
@click.option("--check", is_flag=True, help="Prove that this host's workers consume, and exit.")
@click.option("--loglevel", default="info", show_default=True, help="The least that is logged.")
def command(concurrency: int | None, check: bool, loglevel: str) -> None:
    """Run a worker until SIGTERM or Ctrl-C, then hand back what it has not finished."""
    from msgspec.structs import replace

    from settings import load
    from tasks.current import use

    settings = load()
    if concurrency is not None:
        settings = replace(settings, worker=replace(settings.worker, concurrency=concurrency))
    if settings.redis_url is None:
        from tasks.local.stack import Stack

        settings = Stack.default(click.echo).ensure(settings, worker=False)
    use(settings)
    settings.require_pools()
    _import_own(settings)
    if check:
        _check()
    else:
        _run(loglevel)


def _import_own(settings: Settings) -> None:
    """The user's tasks, from the working directory too. Raises SettingsError."""
    import importlib
    import sys

    from settings.errors import SettingsError
    from worker.app import modules_of

    modules = modules_of(settings)
    if modules and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise SettingsError([f"task_modules: cannot import {name}: {error}"]) from error


def _run(loglevel: str) -> None:
    import gc

    from tasks.application import app
    from worker.app import worker_name
    from worker.store.connections import connect, require

    url = app.longstream.store_url
    with connect(url) as client:
        require(client, url)
    gc.freeze()
    gc.enable()
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    app.worker_main(["worker", "--hostname", worker_name(), "--loglevel", loglevel, *quiet])


def _check() -> None:
    from settings.errors import LongstreamError
    from tasks.application import app
    from worker.doctor.probe import alive, consumes
    from worker.store.connections import connect

    host = socket.gethostname()
    with connect(app.longstream.store_url) as client:
        mine = [name for name in alive(client, app.longstream) if name.endswith(f"@{host}")]
        if not mine:
            raise LongstreamError(f"no worker on {host} has been heard of: start one")
        for name in mine:
            if not consumes(app, client, name, _PROBE_S):
                raise LongstreamError(f"worker {name} did not run a probe in {_PROBE_S:.0f} s")
            click.echo(f"{name} consumes")
