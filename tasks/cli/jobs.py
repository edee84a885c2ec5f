"""`longstream jobs`: what there is, newest first."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  longstream jobs
  longstream jobs --count 100 --json | jq -r 'select(.state == "running").id'
  longstream jobs | cut -f1 | head -1        the latest id
"""

_SHOWN = ("id", "state", "outcome", "label", "model", "key", "attempt", "length")


@click.command(epilog=_EPILOG)
@click.option(
    "--count", default=20, show_default=True, type=click.IntRange(min=1), help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(count: int, as_json: bool) -> None:
    """List jobs, newest first: id, state, outcome, what, model, key, attempts, characters.

    In a pipe the columns are separated by tabs; "-" stands for what is not known yet.
    """
    import sys

    import msgspec

    from tasks import jobs
    from tasks.cli.prepare import prepare, say

    prepare()
    records = jobs.recent(count)
    if as_json:
        for record in records:
            fields = msgspec.to_builtins(record)
            del fields["result"]
            click.echo(msgspec.json.encode(fields).decode())
        return
    if not records:
        say('no jobs yet: try `longstream ask "..."`')
        return
    rows = [[_shown(getattr(record, name)) for name in _SHOWN] for record in records]
    if sys.stdout.isatty():
        _table(rows)
        return
    for row in rows:
        click.echo("\t".join(row))


def _shown(value: object) -> str:
    return str(value) if value != "" else "-"


def _table(rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in _SHOWN:
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
