"""What every command does first: settings, a Redis that answers, and a word on simulation."""

from __future__ import annotations

import os

import click

from settings import load
from settings.environment import ignored
from settings.model import Settings
from tasks.current import use

SIMULATED = "simulated: no API key is configured, so answers come from the simulator"


def say(line: str) -> None:
    """One line for the person, never for the pipe."""
    click.echo(f"longstream: {line}", err=True)


def utf8(what: str, text: str) -> str:
    """The text, if it is one; what the shell passes on as bytes can be anything."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise click.UsageError(f"the {what} is not UTF-8 text") from error
    return text


def prepare(*, serving: bool = False) -> Settings:
    """The settings, everything they need running. `serving`: a key is needed, too.

    Raises LongstreamError with what is missing and the way out.
    """
    settings = load()
    for line in ignored(os.environ):
        if "did you mean" in line:
            say(line)
    embedded = settings.redis_url is None
    settings = use(settings, say, serving=serving)
    if not embedded:
        from worker.store.connections import connect, require

        with connect(settings.store_url) as client:
            require(client, settings.store_url)
    if serving:
        settings.require_pools()
        if settings.simulated:
            say(SIMULATED)
    return settings
