"""`longstream show`: one job, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from worker.job.records import Record

#: Shown in their own way, or of no use to people.
_APART = frozenset(
    {
        "result",
        "spent",
        "cost",
        "accounted",
        "booked",
        "rule",
        "instead_of",
        "saved_usd",
        "max_cost_micros",
    }
)

_EPILOG = """\b
Examples:
  longstream show 3f9a                        the start of an id is enough
  longstream show 3f9a --json | jq .usage
  longstream show 3f9a --json | jq -r .result
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the result.")
def command(job: str, as_json: bool) -> None:
    """Show JOB: its state, what it used, and its result once it has one.

    A job is kept longer than its log: the result is there when `longstream tail` has nothing to
    read any more.
    """
    import msgspec

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    record = jobs.status(jobs.find(job))
    if as_json:
        click.echo(msgspec.json.encode(record).decode())
        return
    for name, value in msgspec.to_builtins(record).items():
        if name not in _APART and value not in ("", 0, None):
            click.echo(f"{name:<12} {_readable(name, value)}")
    _show_cost(record)
    if isinstance(record.result, str):
        click.echo()
        click.echo(record.result)
    elif record.result is not None:
        click.echo(f"result       {', '.join(record.result.get('files', {})) or 'no file changed'}")
        click.echo(f"             longstream refactor --resume {record.id} shows the diff")


def _show_cost(record: Record) -> None:
    """What the job costs, and what each attempt has used."""
    from worker.ledger.totals import shown

    if record.max_cost_micros:
        click.echo(f"{'max_cost':<12} {record.max_cost_micros / 1_000_000} USD")
    if record.cost is not None:
        click.echo(f"{'cost':<12} {shown(record.cost)}")
    if record.rule:
        saved = "an unknown sum" if record.saved_usd is None else f"{record.saved_usd:.4f} USD"
        click.echo(
            f"{'routed':<12} rule {record.rule} instead of {record.instead_of}: {saved} saved"
        )
    for each in record.spent:
        tokens = each.tokens
        said = [f"{tokens.input:,} input", f"{tokens.output:,} output"]
        said += [f"wasted: {each.wasted}"] if each.wasted else []
        said += ["an estimate"] if each.estimated else []
        click.echo(f"  attempt {each.attempt:<2} {', '.join(said)} ({each.model}, key {each.key})")


def _readable(name: str, value: object) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        from datetime import datetime

        return datetime.fromtimestamp(value / 1000).astimezone().isoformat(timespec="milliseconds")
    if isinstance(value, dict):
        return ", ".join(f"{amount:,} {kind}" for kind, amount in value.items())
    return str(value)
