"""`longstream token`: who may call the gateway."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from tasks.cli.terms import duration, named

if TYPE_CHECKING:
    import redis

    from tasks.gateway.tokens import Token

_CREATE = """\b
Examples:
  longstream token create --name ci --scope submit --scope read --tenant ci
  longstream token create --scope read --job 3f9a5b7c1d2e --expires 1h
  curl -H "Authorization: Bearer $(longstream token create)" http://127.0.0.1:8700/jobs
"""

_LIST = """\b
Examples:
  longstream token list
  longstream token list --json | jq -r 'select(.scopes == "admin").id'

\b
In a pipe the columns are separated by tabs: id, name, scopes, tenant, job, expiry.
"""

_REVOKE = """\b
Examples:
  longstream token revoke 5d41402abc4b      its id, as `longstream token list` shows it
"""

_EPILOG = """\b
Examples:
  longstream token create --name ci --scope submit --scope read --tenant ci
  longstream token create --scope read --job 3f9a5b7c1d2e --expires 1h
  longstream token list
  longstream token revoke 5d41402abc4b
"""

_SCOPES = ("submit", "read", "cancel", "admin")


@click.group(epilog=_EPILOG)
def command() -> None:
    """Make, list and revoke the tokens that callers of the gateway show.

    On loopback the gateway needs none, unless it was started with --require-tokens. Redis keeps a
    hash of a token, never the token.
    """


@command.command("create", epilog=_CREATE)
@click.option("--name", default="", help="What it is for, for the list.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What it allows; may be given several times.  [default: read]",
)
@click.option(
    "--tenant",
    default="",
    callback=named,
    help="Whose jobs it submits and sees; without it, everybody's.",
)
@click.option("--job", default="", callback=named, help="The one job it is for.")
@click.option("--expires", callback=duration, metavar="TIME", help="As 90s, 15m, 12h or 30d.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def create(
    name: str, scopes: tuple[str, ...], tenant: str, job: str, expires: float | None, as_json: bool
) -> None:
    """Make a token and print it, this once.

    A token without --tenant sees the jobs of all tenants. The scope admin allows everything.
    """
    import msgspec

    from tasks.cli.prepare import say
    from tasks.gateway import tokens

    if "admin" in scopes and (tenant or job):
        raise click.UsageError("the scope admin is not bound to a tenant or a job")
    with _store() as client:
        chosen = tuple(tokens.Scope(scope) for scope in scopes or ("read",))
        token, text = tokens.create(
            client, name, chosen, tenant=tenant, job=_found(job), expires_s=expires
        )
    if as_json:
        click.echo(msgspec.json.encode({**_shown(token), "token": text}).decode())
        return
    say(f"token {token.id}; this is the only time it is shown")
    click.echo(text)


@command.command("list", epilog=_LIST)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def show(as_json: bool) -> None:
    """List the tokens that are valid, oldest first."""
    import msgspec

    from tasks.cli.listing import screen_width
    from tasks.cli.prepare import say
    from tasks.gateway import tokens

    with _store() as client:
        found = [_shown(token) for token in tokens.listed(client)]
    if not found and not as_json:
        say("no tokens yet: `longstream token create` makes one")
    elif (width := screen_width()) is not None and not as_json:
        _show(found, width)
    else:
        for shown in found:
            cells = "\t".join(str(value) or "-" for value in shown.values())
            click.echo(msgspec.json.encode(shown).decode() if as_json else cells)


def _show(tokens: list[dict[str, Any]], width: int) -> None:
    from tasks.cli.listing import Column, lines_of

    columns = (
        Column(head="id"),
        Column(head="name", least=6, goes=4),
        Column(head="scopes", least=6),
        Column(head="tenant", least=6, goes=3),
        Column(head="job", least=12, goes=2),
        Column(head="expires", goes=1),
    )
    rows = [[value or "-" for value in token.values()] for token in tokens]
    for line in lines_of(columns, rows, width):
        click.echo(line)


@command.command("revoke", epilog=_REVOKE, short_help="Make a token useless, at once.")
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Make the token with this ID useless, at once; open streams end within seconds."""
    from settings.errors import LongstreamError
    from tasks.gateway import tokens

    with _store() as client:
        if not tokens.revoke(client, token_id):
            raise LongstreamError(f"no token {token_id}: `longstream token list` shows those valid")


def _shown(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": ",".join(token.scopes),
        "tenant": token.tenant,
        "job": token.job,
        "expires": _when(token.expires_ms),
    }


def _when(at_ms: int) -> str:
    if not at_ms:
        return ""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _found(job: str) -> str:
    from tasks import jobs

    return jobs.find(job) if job else ""


def _store() -> AbstractContextManager[redis.Redis]:
    from tasks.cli.prepare import prepare
    from tasks.stored import store

    prepare()
    return store()
