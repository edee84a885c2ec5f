"""`longstream jobs`: what there is, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from worker.job.records import Record

_EPILOG = """\b
Examples:
  longstream jobs
  longstream jobs --count 100 --json | jq -r 'select(.state == "running").id'
  longstream jobs | cut -f1 | head -1        the latest id
"""

#: The columns in a pipe. Scripts count them: a new one comes last.
_PIPED = ("id", "state", "outcome", "label", "model", "key", "attempt", "length")


@click.command(epilog=_EPILOG)
@click.option(
    "--count", default=20, show_default=True, type=click.IntRange(min=1), help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(count: int, as_json: bool) -> None:
    """List jobs, newest first.

    In a pipe the columns are separated by tabs: id, state, outcome, what, model, key, attempts,
    characters; "-" stands for what is not known yet. A terminal shows what it has room for.
    """
    import msgspec

    from tasks import jobs
    from tasks.cli.listing import screen_width
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
    width = screen_width()
    if width is not None:
        _show(records, width)
        return
    for record in records:
        click.echo("\t".join(_known(getattr(record, name)) for name in _PIPED))


def _known(value: object) -> str:
    return str(value) if value != "" else "-"


def _show(records: list[Record], width: int) -> None:
    import time

    from tasks.cli.listing import Column, lines_of

    columns = (
        Column(head="job", least=12),
        Column(head="state"),
        Column(head="what", least=8),
        Column(head="model", least=8, goes=3),
        Column(head="key", least=8, goes=2),
        Column(head="attempts", right=True, goes=1),
        Column(head="characters", right=True, goes=4),
        Column(head="submitted", right=True, goes=5),
    )
    now_s = time.time()
    rows = [
        (
            record.id,
            record.outcome or record.state,
            record.label,
            record.model,
            _known(record.key),
            f"{record.attempt}",
            f"{record.length:,}" if record.outcome else "-",
            _ago(now_s - record.created_ms / 1000),
        )
        for record in records
    ]
    for line in lines_of(columns, rows, width):
        click.echo(line)


def _ago(seconds: float) -> str:
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f} {unit} ago"
    return f"{max(0, int(seconds))} s ago"
