"""`longstream keys`: what is left of every account; `check`: does every key open its door?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from settings.model import Key, Settings
    from worker.admission.overview import AccountView
    from worker.upstream.client import Client

_EPILOG = """\b
Examples:
  longstream keys                         what is left of every account
  longstream keys check                   after changing a key, before a long job
  longstream keys check --json | jq       which models each key sees, by name
  longstream keys enable acme-1           use a key again that the provider had refused
"""


_ENABLE = """\b
Examples:
  longstream keys enable acme-1           the alias, as `longstream keys` shows it
"""


@click.group(invoke_without_command=True, epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="One JSON object an account.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show every account: what is left of its limits, streams in use, what rests and why."""
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    for view in jobs.accounts():
        if as_json:
            click.echo(msgspec.json.encode(view).decode())
        else:
            _show(view)


@command.command(epilog=_ENABLE, short_help="Use a key again that was refused.")
@click.argument("alias")
def enable(alias: str) -> None:
    """Use the key ALIAS again, and its account, whatever the provider said of them."""
    from settings.errors import LongstreamError
    from tasks import jobs
    from tasks.cli.prepare import prepare

    settings = prepare()
    if settings.key(alias) is None:
        known = [key.alias for pool in settings.pools.values() for key in pool.keys]
        raise LongstreamError(f"no key {alias}: those configured are {', '.join(known)}")
    was_out = jobs.enable(alias)
    click.echo(f"{alias} is in use again" if was_out else f"{alias} was not out of use")


def _show(view: AccountView) -> None:
    most = "" if view.streams_limit is None else f" of {view.streams_limit}"
    if view.merged_into is not None:
        click.echo(
            f"{view.account} (pool {view.pool}): warning: the provider names one organisation for "
            f"it and {view.merged_into}, so its keys share the limits of {view.merged_into}; "
            f'give them account = "{view.merged_into}"'
        )
        return
    click.echo(f"{view.account} (pool {view.pool}; keys {', '.join(view.keys)})")
    click.echo(f"  streams: {view.streams}{most} in use")
    for limit in view.limits:
        lower = ""
        if limit.configured is None:
            lower = ", learned from its answers"
        elif limit.limit < limit.configured:
            lower = f", configured {limit.configured:,.0f}"
        click.echo(f"  {limit.dimension}: {limit.left:,.0f} free of {limit.limit:,.0f}{lower}")
    click.echo(
        f"  last hour: {view.tokens_last_hour:,} tokens, {view.refusals_last_hour} refusals (429)"
    )
    for rest in view.rests:
        left = "until repaired" if rest.left_s is None else f"{rest.left_s:.0f} s left"
        click.echo(f"  {rest.what} is out of use, {left}: {rest.cause}")


@command.command(epilog=_EPILOG, short_help="Ask every provider what each key sees.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a key.")
def check(as_json: bool) -> None:
    """Ask every provider which models each key sees, all at once.

    One line a key: "authenticated against URL, N models visible", or why not. Keys are shown by
    their alias. Nothing is generated, so nothing is billed. Exit code 1 when a key does not work.
    """
    import asyncio
    import json

    from tasks.cli.listing import counted

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
            seen = counted(len(models), "model")
            click.echo(f"{key.alias}: authenticated against {key.base_url}, {seen} visible")
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
    import asyncio

    from worker.upstream.client import Client

    keys = [key for pool in settings.pools.values() for key in pool.keys]
    async with Client(settings.clocks, settings.ca_bundle) as client:
        return list(await asyncio.gather(*(_check(client, key) for key in keys)))


async def _check(client: Client, key: Key) -> tuple[Key, list[str], str]:
    from worker.upstream.failures import UpstreamFailure

    try:
        return key, await client.models(key), ""
    except UpstreamFailure as failure:
        return key, [], f"{failure} ({key.base_url})"
