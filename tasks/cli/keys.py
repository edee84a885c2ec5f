"""`longstream keys check`: does every key open its door?"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from settings.model import Key, Settings

_EPILOG = """\b
Examples:
  longstream keys check
  longstream keys check --json
"""


@click.group()
def command() -> None:
    """Check the API keys."""


@command.command(epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def check(as_json: bool) -> None:
    """Ask every provider which models each key sees. Exit 1 when a key does not work."""
    import json

    settings = _settings()
    rows = asyncio.run(_check_all(settings))
    for key, models, problem in rows:
        if as_json:
            fields = {"key": key.alias, "base_url": key.base_url, "ok": not problem}
            more = {"problem": problem} if problem else {"models": models}
            click.echo(json.dumps(fields | more))
        elif problem:
            click.echo(f"{key.alias}: {problem}")
        else:
            click.echo(
                f"{key.alias}: authenticated against {key.base_url}, {len(models)} models visible"
            )
    sys.exit(1 if any(problem for _, _, problem in rows) else 0)


def _settings() -> Settings:
    """No Redis and no worker is needed for this; without a key, the simulator is."""
    from settings import load
    from tasks.cli.prepare import SIMULATED, say

    settings = load()
    if not settings.pools and settings.redis_url is None:
        from tasks.local.stack import Stack

        settings = Stack.default(say).ensure(settings, worker=False)
    settings.require_pools()
    if settings.simulated:
        say(SIMULATED)
    return settings


async def _check_all(settings: Settings) -> list[tuple[Key, list[str], str]]:
    from worker.upstream.client import Client

    keys = [key for pool in settings.pools.values() for key in pool.keys]
    async with Client(settings.clocks, settings.ca_bundle) as client:
        return list(await asyncio.gather(*(_check(client, key) for key in keys)))


async def _check(client: object, key: Key) -> tuple[Key, list[str], str]:
    from worker.upstream.client import Client
    from worker.upstream.failures import UpstreamFailure

    assert isinstance(client, Client)
    try:
        return key, await client.models(key), ""
    except UpstreamFailure as failure:
        return key, [], f"{failure} ({key.base_url})"
